package reservoir

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
)

// Delivery is one message of the subscription's queue; a later delivery of it has another receipt.
type Delivery struct{ MessageID, Receipt, Body string }

// Inbox is a subscription's queue.
type Inbox interface {
	// Receive returns what is there, or what comes within wait.
	Receive(ctx context.Context, wait time.Duration) ([]Delivery, error)
	// Delete has messages never delivered again; one that is none the less is recognised by its content.
	Delete(ctx context.Context, receipts []string) error
}

// Fact is one fact. Detail points to the type that is called as Type is, without spaces: *NodeDraining and the like.
// ID is EventBridge's: a delivery that is repeated has the same, a step that is repeated has not.
type Fact struct {
	ID     string
	Time   time.Time
	Type   string
	Detail any

	identity string
	keys     []string
}

const (
	forever  = time.Duration(math.MaxInt64)
	longPoll = 20 * time.Second
	// how soon somebody else reads on when the one who read has what it wanted
	turn = time.Second
	// facts that were dealt with, by identity; repeats come soon or not at all
	remembered = 20_000
	// facts that nobody takes yet; the oldest go first, and SQS delivers them again
	kept = 5_000
)

// parseFact reads a message of the queue; nil for what is no fact that this release knows.
func parseFact(body string) *Fact {
	var envelope struct {
		ID, Source string
		Time       time.Time
		Type       string `json:"detail-type"`
		Detail     json.RawMessage
	}
	if json.Unmarshal([]byte(body), &envelope) != nil || envelope.Source != "reservoir" {
		return nil
	}
	var named struct {
		Workload            *WorkloadRef
		Workloads, Returned []WorkloadRef
	}
	detail, known := details[envelope.Type]
	if !known || json.Unmarshal(envelope.Detail, &named) != nil {
		return nil
	}
	fact := &Fact{ID: envelope.ID, Time: envelope.Time, Type: envelope.Type, Detail: detail(), identity: envelope.ID}
	if json.Unmarshal(envelope.Detail, fact.Detail) != nil {
		return nil
	}
	if named.Workload != nil {
		fact.keys = append(fact.keys, keyOf(named.Workload.Namespace, named.Workload.Name))
	}
	for _, one := range append(named.Workloads, named.Returned...) {
		fact.keys = append(fact.keys, keyOf(one.Namespace, one.Name))
	}
	return fact.identified()
}

// identified notes what tells repeats apart: the drain or the claim that a fact is about, where there is one, else its
// id. It returns nil for a fact without what it is about.
func (f *Fact) identified() *Fact {
	about := f.ID
	switch detail := f.Detail.(type) {
	case *NodeDraining:
		// One that names more workloads is news to those.
		told := slices.Sorted(slices.Values(f.keys))
		f.identity = fmt.Sprint(f.Type, detail.DrainID, detail.Deadline.Unix(), told)
		about = detail.DrainID
	case *NodeLaunched:
		f.identity, about = f.Type+detail.Node.NodeClaim, detail.Node.NodeClaim
	case *NodeTerminated:
		f.identity, about = f.Type+detail.Node.NodeClaim, detail.Node.NodeClaim
	}
	if about == "" {
		return nil
	}
	return f
}

// isAnswer says whether the fact answers somebody's message; whoever did not ask has no use for it.
func (f *Fact) isAnswer() bool {
	switch f.Detail.(type) {
	case *WorkloadAccepted, *WorkloadDescribed, *WorkloadIgnored, *WorkloadRejected:
		return true
	}
	return false
}

// A stream is what one waiting party sees. A fact that it takes counts as dealt with only once it is done with it.
type stream struct {
	wants   func(*Fact) bool
	takes   bool
	waiting []*Fact
}

// A heldFact is one whose message is not deleted yet, and who has it in hand. A repeat is a message of its own.
type heldFact struct {
	fact     *Fact
	receipts map[string]string
	takers   map[*stream]bool
}

func (h *heldFact) offer(to *stream) {
	if to.wants(h.fact) {
		to.waiting = append(to.waiting, h.fact)
		if to.takes {
			h.takers[to] = true
		}
	}
}

// A listener is the one reader of a subscription's queue for everybody in the process who waits for a fact.
//
// A fact's message is deleted when all who take the fact are done with it, so that what a process had in hand when it
// died is delivered again. A fact that nobody takes yet is kept, and its message too.
type listener struct {
	inbox   Inbox
	now     func() time.Duration
	reading chan struct{} // holds one while somebody reads

	mutex   sync.Mutex
	changed chan struct{} // closed when something was read
	streams map[*stream]bool
	held    []*heldFact // in order of arrival
	done    map[string]bool
	oldest  []string // of what is done, in order
}

func newListener(inbox Inbox, now func() time.Duration) *listener {
	return &listener{
		inbox: inbox, now: now, reading: make(chan struct{}, 1), changed: make(chan struct{}),
		streams: map[*stream]bool{}, done: map[string]bool{},
	}
}

// open takes part from now on, beginning with what was kept. What is in hand when it is closed is delivered again.
func (l *listener) open(wants func(*Fact) bool, takes bool) (*stream, func()) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	opened := &stream{wants: wants, takes: takes}
	l.streams[opened] = true
	if takes {
		for _, held := range l.held {
			held.offer(opened)
		}
	}
	return opened, func() {
		l.mutex.Lock()
		defer l.mutex.Unlock()
		delete(l.streams, opened)
		for _, held := range l.held {
			delete(held.takers, opened)
		}
	}
}

// next returns the stream's next fact; nil when there is none within the time.
func (l *listener) next(ctx context.Context, from *stream, within time.Duration) (*Fact, error) {
	until := forever
	if within < forever-l.now() {
		until = l.now() + within
	}
	for ctx.Err() == nil {
		l.mutex.Lock()
		changed := l.changed
		if len(from.waiting) > 0 {
			fact := from.waiting[0]
			from.waiting = from.waiting[1:]
			l.mutex.Unlock()
			return fact, nil
		}
		l.mutex.Unlock()
		left := until - l.now()
		if left <= 0 {
			return nil, nil
		}
		select {
		case l.reading <- struct{}{}:
			err := l.read(ctx, left)
			<-l.reading
			if err != nil {
				return nil, err
			}
		case <-changed:
		case <-time.After(min(left, turn)):
		case <-ctx.Done():
		}
	}
	return nil, ctx.Err()
}

func (l *listener) forgetWaiting(of *stream) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	of.waiting = nil
}

// isDone says that a party has dealt with a fact; when all have, its message is deleted.
func (l *listener) isDone(with *Fact, by *stream) (receipts []string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	held := l.find(with)
	if held == nil {
		return nil
	}
	delete(held.takers, by)
	if len(held.takers) > 0 {
		return nil
	}
	return l.forget(held)
}

func (l *listener) finish(ctx context.Context, fact *Fact, by *stream) error {
	return l.delete(ctx, l.isDone(fact, by))
}

func (l *listener) delete(ctx context.Context, receipts []string) error {
	if len(receipts) == 0 {
		return nil
	}
	return l.inbox.Delete(ctx, receipts)
}

func (l *listener) read(ctx context.Context, left time.Duration) error {
	// A part of a second is asked for as one, so that nobody spins.
	wait := max(time.Second, min(left, longPoll).Truncate(time.Second))
	deliveries, err := l.inbox.Receive(ctx, wait)
	if err != nil {
		return err
	}
	return l.delete(ctx, l.takeIn(deliveries))
}

// takeIn hands messages to whom they concern; it returns the receipts of what is to be deleted.
func (l *listener) takeIn(deliveries []Delivery) (receipts []string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, delivery := range deliveries {
		fact := parseFact(delivery.Body)
		if fact == nil || l.done[fact.identity] {
			receipts = append(receipts, delivery.Receipt)
			continue
		}
		if known := l.find(fact); known != nil {
			known.receipts[delivery.MessageID] = delivery.Receipt
			continue
		}
		held := &heldFact{fact, map[string]string{delivery.MessageID: delivery.Receipt}, map[*stream]bool{}}
		l.held = append(l.held, held)
		for each := range l.streams {
			held.offer(each)
		}
		if fact.isAnswer() && len(held.takers) == 0 {
			receipts = append(receipts, l.forget(held)...)
		}
		l.dropWhatIsTooMuch()
	}
	close(l.changed)
	l.changed = make(chan struct{})
	return receipts
}

func (l *listener) find(fact *Fact) *heldFact {
	for _, held := range l.held {
		if held.fact.identity == fact.identity {
			return held
		}
	}
	return nil
}

func (l *listener) forget(gone *heldFact) (receipts []string) {
	l.held = slices.DeleteFunc(l.held, func(held *heldFact) bool { return held == gone })
	l.done[gone.fact.identity] = true
	l.oldest = append(l.oldest, gone.fact.identity)
	for len(l.oldest) > remembered {
		delete(l.done, l.oldest[0])
		l.oldest = l.oldest[1:]
	}
	for _, receipt := range gone.receipts {
		receipts = append(receipts, receipt)
	}
	return receipts
}

func (l *listener) dropWhatIsTooMuch() {
	if len(l.held) <= kept {
		return
	}
	isIdle := func(held *heldFact) bool { return len(held.takers) == 0 }
	if index := slices.IndexFunc(l.held, isIdle); index >= 0 {
		l.held = slices.Delete(l.held, index, index+1)
	}
}

func keyOf(namespace, name string) string { return namespace + "/" + name }
