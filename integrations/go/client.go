// Package reservoir is what a workload system says to Reservoir, and what it hears.
//
// Everything is asked again until it is answered. That changes nothing twice: a question changes nothing, and a submit
// is applied once by its generation.
package reservoir

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// Outbox is the demand queue.
type Outbox interface {
	// Send sends a message; it returns SQS's id of it.
	Send(ctx context.Context, message []byte) (string, error)
}

// Submitted is what was sent. IsStored: Reservoir has said so; otherwise nobody was asked.
type Submitted struct {
	Key        string
	Generation int64
	IsStored   bool
}

// Surroundings are time and chance, for tests.
type Surroundings struct {
	Now    func() time.Duration // never goes back
	Jitter func(shortest, longest time.Duration) time.Duration
	NewID  func() string
}

// Client speaks to one deployment; any number of goroutines may use one. Connect makes it.
type Client struct {
	outbox         Outbox
	listener       *listener
	around         Surroundings
	answeredWithin time.Duration
	handled        *handledDrains
}

const (
	firstPause   = 4 * time.Second
	longestPause = 64 * time.Second
)

// New makes a client; without an inbox (nil) nothing can be done that needs an answer.
func New(outbox Outbox, inbox Inbox, around *Surroundings) *Client {
	began := time.Now()
	if around == nil {
		around = &Surroundings{
			Now: func() time.Duration { return time.Since(began) },
			Jitter: func(shortest, longest time.Duration) time.Duration {
				return shortest + mathrand.N(longest-shortest)
			},
			NewID: rand.Text,
		}
	}
	client := &Client{outbox: outbox, around: *around, answeredWithin: 120 * time.Second}
	client.handled = &handledDrains{known: map[string]bool{}}
	if inbox != nil {
		client.listener = newListener(inbox, around.Now)
	}
	return client
}

// Within returns the same client, which waits so long for answers, and not two minutes.
func (c *Client) Within(timeout time.Duration) *Client {
	other := *c
	other.answeredWithin = timeout
	return &other
}

// Submit has a workload wanted as it is given: new, changed or once more; it returns when it is stored. The workload is
// a *WorkloadManifest, or anything that is written as one in JSON.
//
// Without a generation it follows from the content: what is stored already keeps its number, anything else gets the
// next. A client without a subscription sends what has a generation, and returns.
func (c *Client) Submit(ctx context.Context, workload any) (Submitted, error) {
	manifest, metadata, err := read(workload)
	if err != nil {
		return Submitted{}, err
	}
	key := keyOf(cmp.Or(metadata.Namespace, "default"), metadata.Name)
	submitted := Submitted{key, metadata.Generation, false}
	if c.listener == nil && metadata.Generation > 0 {
		_, err := c.send(ctx, "submit", manifest, nil)
		return submitted, err
	}
	until := c.around.Now() + c.answeredWithin
	if metadata.Generation == 0 {
		known, err := c.ask(ctx, "submit without a generation", key, until, manifest)
		if err != nil {
			return Submitted{}, err
		}
		submitted.Generation = next(known)
		manifest["metadata"].(map[string]any)["generation"] = submitted.Generation
	}
	err = c.store(ctx, key, manifest, submitted.Generation, until)
	submitted.IsStored = err == nil
	return submitted, err
}

// Withdraw has a workload (namespace/name) not wanted any more, as it is stored now; it returns when this is so.
func (c *Client) Withdraw(ctx context.Context, key string) error {
	until := c.around.Now() + c.answeredWithin
	generation := int64(0)
	for range c.attempts(until) {
		known, err := c.ask(ctx, "Withdraw", key, until, nil)
		if err != nil {
			return err
		}
		stored := storedIn(known)
		if stored == 0 || known.Withdrawn {
			return nil
		}
		generation = cmp.Or(generation, stored)
		if stored != generation {
			return conflict(key, generation, known)
		}
		workload := named(key)
		workload["metadata"].(map[string]any)["generation"] = generation
		if _, err := c.send(ctx, "withdraw", workload, nil); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: %s was not withdrawn in time", ErrUnanswered, key)
}

// Release says that replicas (0: all of the workload) have left a draining node; a repeat changes nothing.
func (c *Client) Release(ctx context.Context, key, nodeClaim string, replicas int64) error {
	more := map[string]any{"nodeClaim": nodeClaim}
	if replicas > 0 {
		more["replicas"] = replicas
	}
	_, err := c.send(ctx, "release", named(key), more)
	return err
}

// Status asks what is known of a workload now: generation, who sent it, why replicas wait, nodes and their drains.
func (c *Client) Status(ctx context.Context, key string) (*WorkloadDescribed, error) {
	return c.ask(ctx, "Status", key, c.around.Now()+c.answeredWithin, nil)
}

// WaitPlaced waits until every replica has a place (launched: on an instance), or ctx is done, or the timeout (0: none)
// is over. Facts only make it look sooner; it looks anyway, ever more seldom.
func (c *Client) WaitPlaced(
	ctx context.Context, key string, launched bool, timeout time.Duration,
) (*WorkloadDescribed, error) {
	if c.listener == nil {
		return nil, notSubscribed("WaitPlaced")
	}
	until := forever
	if timeout > 0 {
		until = c.around.Now() + timeout
	}
	stream, end := c.listener.open(func(fact *Fact) bool {
		return slices.Contains(fact.keys, key) && fact.Type != "Workload Described" && fact.Type != "Workload Accepted"
	}, false)
	defer end()
	why := []string{}
	for pause := range c.attempts(until) {
		c.listener.forgetWaiting(stream)
		known, err := c.ask(ctx, "WaitPlaced", key, c.around.Now()+c.answeredWithin, nil)
		if err != nil {
			return nil, err
		}
		if storedIn(known) == 0 || known.Withdrawn {
			return nil, fmt.Errorf("%w: nobody wants %s", ErrWithdrawn, key)
		}
		if isPlaced(known, launched) {
			return known, nil
		}
		why = why[:0]
		for _, it := range known.Waiting {
			why = append(why, fmt.Sprintf("%d because %s", it.Replicas, it.Message))
		}
		if _, err := c.listener.next(ctx, stream, min(pause, until-c.around.Now())); err != nil {
			return nil, err
		}
	}
	reasons := cmp.Or(strings.Join(why, "; "), "no plan has looked at it")
	return nil, fmt.Errorf("%w: %s has no place yet: %s", ErrUnanswered, key, reasons)
}

// Events yields the facts of the subscription, repeats left out, until ctx is done or none comes for idle (0: no limit).
// A fact counts as dealt with when the next one is asked for.
func (c *Client) Events(ctx context.Context, idle time.Duration) iter.Seq2[*Fact, error] {
	return func(yield func(*Fact, error) bool) {
		if c.listener == nil {
			yield(nil, notSubscribed("Events"))
			return
		}
		stream, end := c.listener.open(func(*Fact) bool { return true }, true)
		defer end()
		for {
			fact, err := c.listener.next(ctx, stream, cmp.Or(idle, forever))
			if err != nil {
				yield(nil, err)
			}
			if fact == nil || !yield(fact, nil) {
				return
			}
			if err := c.listener.finish(ctx, fact, stream); err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// ask asks what is known of a workload, and whether it is stored as workload (nil: none) has it.
func (c *Client) ask(
	ctx context.Context, call, key string, until time.Duration, workload map[string]any,
) (*WorkloadDescribed, error) {
	if c.listener == nil {
		return nil, notSubscribed(call)
	}
	if workload == nil {
		workload = named(key)
	}
	var mutex sync.Mutex // the one who reads may be another goroutine
	asked, sent := map[string]bool{}, map[string]bool{}
	stream, end := c.listener.open(func(fact *Fact) bool {
		mutex.Lock()
		defer mutex.Unlock()
		described, isDescribed := fact.Detail.(*WorkloadDescribed)
		isRejected := fact.Type == "Workload Rejected" && slices.Contains(fact.keys, key)
		return isRejected || isDescribed && asked[described.RequestID]
	}, true)
	defer end()
	for pause := range c.attempts(until) {
		requestID := c.around.NewID()
		mutex.Lock()
		asked[requestID] = true
		mutex.Unlock()
		messageID, err := c.send(ctx, "describe", workload, map[string]any{"requestId": requestID})
		if err != nil {
			return nil, err
		}
		sent[messageID] = true
		answer, err := c.putTogether(ctx, stream, key, sent, pause)
		if answer != nil || err != nil {
			return answer, err
		}
	}
	return nil, unanswered(key)
}

// putTogether returns the first answer of which all parts are there.
func (c *Client) putTogether(
	ctx context.Context, from *stream, key string, sent map[string]bool, within time.Duration,
) (*WorkloadDescribed, error) {
	parts := map[string]map[int64]*WorkloadDescribed{}
	for fact, err := range c.facts(ctx, from, within) {
		if err != nil {
			return nil, err
		}
		if rejected, isRejected := fact.Detail.(*WorkloadRejected); isRejected && sent[rejected.MessageID] {
			return nil, &RejectedError{key, rejected.Problems}
		}
		described, isDescribed := fact.Detail.(*WorkloadDescribed)
		if !isDescribed {
			continue
		}
		known := parts[described.RequestID]
		if known == nil {
			known = map[int64]*WorkloadDescribed{}
			parts[described.RequestID] = known
		}
		known[described.Part] = described
		if int64(len(known)) < described.PartCount {
			continue
		}
		whole := *described
		whole.Nodes, whole.Part, whole.PartCount = nil, 1, 1
		for number := range described.PartCount {
			whole.Nodes = append(whole.Nodes, known[number+1].Nodes...)
		}
		return &whole, nil
	}
	return nil, nil
}

// store sends a workload until it is stored.
func (c *Client) store(
	ctx context.Context, key string, workload map[string]any, generation int64, until time.Duration,
) error {
	stream, end := c.listener.open(func(fact *Fact) bool {
		return fact.isAnswer() && fact.Type != "Workload Described" && slices.Contains(fact.keys, key)
	}, true)
	defer end()
	sent := map[string]bool{}
	for pause := range c.attempts(until) {
		messageID, err := c.send(ctx, "submit", workload, nil)
		if err != nil {
			return err
		}
		sent[messageID] = true
		said, err := c.said(ctx, stream, sent, pause)
		if err != nil {
			return err
		}
		switch detail := said.(type) {
		case *WorkloadAccepted:
			return nil
		case *WorkloadRejected:
			return refusal(key, detail.Problems)
		}
		// What was said of it may be lost.
		known, err := c.ask(ctx, "Submit", key, until, workload)
		if err != nil {
			return err
		}
		// A release before this client's does not compare: it is asked until it says itself that nothing was changed.
		ignored, isIgnored := said.(*WorkloadIgnored)
		isSame := isIgnored && ignored.Reason == Unchanged
		if known.IsStored != nil {
			isSame = *known.IsStored
		}
		switch stored := storedIn(known); {
		case stored < generation || stored == generation && known.IsStored == nil && !isIgnored:
			continue
		case stored == generation && isSame:
			return nil
		}
		return conflict(key, generation, known)
	}
	return unanswered(key)
}

// said returns what was said of one of the messages that were sent; nil if nothing was.
func (c *Client) said(
	ctx context.Context, from *stream, sent map[string]bool, within time.Duration,
) (any, error) {
	for fact, err := range c.facts(ctx, from, within) {
		if err != nil {
			return nil, err
		}
		messageID := ""
		switch detail := fact.Detail.(type) {
		case *WorkloadAccepted:
			messageID = detail.MessageID
		case *WorkloadIgnored:
			messageID = detail.MessageID
		case *WorkloadRejected:
			messageID = detail.MessageID
		}
		if sent[messageID] {
			return fact.Detail, nil
		}
	}
	return nil, nil
}

// facts yields what comes within the time, each fact dealt with as it is taken.
func (c *Client) facts(ctx context.Context, from *stream, within time.Duration) iter.Seq2[*Fact, error] {
	until := c.around.Now() + within
	return func(yield func(*Fact, error) bool) {
		for {
			fact, err := c.listener.next(ctx, from, until-c.around.Now())
			if fact != nil {
				err = c.listener.finish(ctx, fact, from)
			}
			if fact == nil && err == nil || !yield(fact, err) || err != nil {
				return
			}
		}
	}
}

// attempts yields how long to wait for an answer each time, ever longer, as long as there is time.
func (c *Client) attempts(until time.Duration) iter.Seq[time.Duration] {
	return func(yield func(time.Duration) bool) {
		for pause := firstPause; ; pause = min(2*pause, longestPause) {
			left := until - c.around.Now()
			if left <= 0 || !yield(min(c.around.Jitter(pause/2, pause), left)) {
				return
			}
		}
	}
}

func (c *Client) send(
	ctx context.Context, action string, workload map[string]any, more map[string]any,
) (string, error) {
	message := map[string]any{"schemaVersion": 1, "action": action, "workload": workload}
	for name, value := range more {
		message[name] = value
	}
	body, err := json.Marshal(message)
	if err != nil {
		return "", err
	}
	return c.outbox.Send(ctx, body)
}

// read returns a workload as JSON has it, and what tells it from others.
func read(workload any) (manifest map[string]any, metadata struct {
	Namespace, Name string
	Generation      int64
}, err error) {
	written, err := json.Marshal(workload)
	if err != nil {
		return nil, metadata, err
	}
	decoder := json.NewDecoder(bytes.NewReader(written))
	decoder.UseNumber()
	if err := decoder.Decode(&manifest); err != nil {
		return nil, metadata, err
	}
	of, _ := json.Marshal(manifest["metadata"])
	if err := json.Unmarshal(of, &metadata); err != nil || metadata.Name == "" {
		return nil, metadata, errors.Join(errors.New("the workload has no metadata with a name"), err)
	}
	return manifest, metadata, nil
}

func named(key string) map[string]any {
	namespace, name, _ := strings.Cut(key, "/")
	return map[string]any{"metadata": map[string]any{"namespace": namespace, "name": name}}
}

// storedIn returns the generation that is stored; 0 if none is.
func storedIn(known *WorkloadDescribed) int64 {
	if known.Workload.Generation == nil {
		return 0
	}
	return *known.Workload.Generation
}

// next returns the generation with which to submit what was asked about. What was withdrawn is wanted anew.
func next(known *WorkloadDescribed) int64 {
	if known.IsStored != nil && *known.IsStored && !known.Withdrawn {
		return storedIn(known)
	}
	return storedIn(known) + 1
}

func isPlaced(known *WorkloadDescribed, launched bool) bool {
	unfinished, counted := known.Wanted-known.Finished, int64(0)
	for _, node := range known.Nodes {
		if !launched || node.State != Planned && node.State != Launching {
			counted += node.Replicas
		}
	}
	return known.Placed >= unfinished && unfinished <= counted
}
