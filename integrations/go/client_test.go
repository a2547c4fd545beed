package reservoir

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

const (
	hidden     = 120 * time.Second
	transcript = "../../tests/client/transcript.json"
)

type conversation struct {
	Name    string
	Listens bool
	Steps   []step
	Sent    []struct {
		Message any
		Facts   []json.RawMessage
	}
	Left int
}

type step struct {
	Restart      bool
	Deliver      []json.RawMessage
	Call         string
	Key          string
	NodeClaim    string
	Replicas     int64
	Workload     any
	Launched     bool
	TimeoutS     *int64
	IdleS        int64
	Most         int
	Whose        []string
	HandlerFails bool
	Says         []string

	Gives   any
	Fails   string
	Handled any
}

var errHandler = errors.New("the disk is full")

type message struct {
	id, body     string
	visibleAt    time.Duration
	receiveCount int
}

// A replay is a queue as SQS's, whose time passes when somebody waits for messages; what is sent must be what was sent.
type replay struct {
	*conversation
	now           time.Duration
	messages      []*message
	messageCount  int
	sentCount     int
	questionCount int
}

func (r *replay) client() *Client {
	around := &Surroundings{
		Now:    func() time.Duration { return r.now },
		Jitter: func(_, longest time.Duration) time.Duration { return longest },
		NewID: func() string {
			r.questionCount++
			return fmt.Sprintf("q-%d", r.questionCount)
		},
	}
	if r.Listens {
		return New(r, r, around)
	}
	return New(r, nil, around)
}

func (r *replay) Send(_ context.Context, body []byte) (string, error) {
	if r.sentCount == len(r.Sent) {
		return "", fmt.Errorf("nothing more was sent, not %s", body)
	}
	var sent any
	entry := r.Sent[r.sentCount]
	if err := json.Unmarshal(body, &sent); err != nil || !reflect.DeepEqual(sent, entry.Message) {
		return "", fmt.Errorf("%v was sent, not %s", entry.Message, body)
	}
	r.deliver(entry.Facts)
	r.sentCount++
	return fmt.Sprintf("sent-%d", r.sentCount-1), nil
}

func (r *replay) deliver(facts []json.RawMessage) {
	for _, fact := range facts {
		r.messageCount++
		r.messages = append(r.messages, &message{id: fmt.Sprintf("message-%d", r.messageCount), body: string(fact)})
	}
}

func (r *replay) Receive(_ context.Context, wait time.Duration) (deliveries []Delivery, _ error) {
	for _, it := range r.messages {
		if it.visibleAt <= r.now && len(deliveries) < 10 {
			it.visibleAt = r.now + hidden
			it.receiveCount++
			deliveries = append(deliveries, Delivery{it.id, fmt.Sprintf("%s/%d", it.id, it.receiveCount), it.body})
		}
	}
	if len(deliveries) == 0 {
		r.now += wait
	}
	return deliveries, nil
}

func (r *replay) Delete(_ context.Context, receipts []string) error {
	gone := map[string]bool{}
	for _, receipt := range receipts {
		id, _, _ := strings.Cut(receipt, "/")
		gone[id] = true
	}
	left := []*message{}
	for _, it := range r.messages {
		if !gone[it.id] {
			left = append(left, it)
		}
	}
	r.messages = left
	return nil
}

func summary(known *WorkloadDescribed, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	nodes := []string{}
	for _, node := range known.Nodes {
		nodes = append(nodes, node.NodeClaim)
	}
	return map[string]any{
		"generation": known.Workload.Generation, "withdrawn": known.Withdrawn, "wanted": known.Wanted,
		"placed": known.Placed, "finished": known.Finished, "nodes": nodes,
	}, nil
}

func call(client *Client, step step, handled *[]any) (any, error) {
	ctx := context.Background()
	timeout := 120 * time.Second
	if step.TimeoutS != nil {
		timeout = time.Duration(*step.TimeoutS) * time.Second
	}
	idle := time.Duration(step.IdleS) * time.Second
	switch step.Call {
	case "submit":
		sent, err := client.Within(timeout).Submit(ctx, step.Workload)
		return map[string]any{"key": sent.Key, "generation": sent.Generation, "isStored": sent.IsStored}, err
	case "withdraw":
		return nil, client.Within(timeout).Withdraw(ctx, step.Key)
	case "release":
		return nil, client.Release(ctx, step.Key, step.NodeClaim, step.Replicas)
	case "status":
		return summary(client.Within(timeout).Status(ctx, step.Key))
	case "waitPlaced":
		return summary(client.WaitPlaced(ctx, step.Key, step.Launched, timeout))
	case "events":
		seen := []string{}
		for fact, err := range client.Events(ctx, idle) {
			if err != nil {
				return nil, err
			}
			seen = append(seen, fact.Type)
			if len(seen) == step.Most {
				break
			}
		}
		return seen, nil
	case "onDraining":
		handle := func(_ context.Context, notice NodeDraining) error {
			told := []any{notice.DrainID}
			for _, one := range notice.Workloads {
				told = append(told, one.Namespace+"/"+one.Name)
			}
			*handled = append(*handled, told)
			if step.HandlerFails {
				return errHandler
			}
			return nil
		}
		return nil, client.OnDraining(ctx, handle, step.Whose, idle)
	}
	return nil, errors.New(step.Call)
}

func nameOf(err error) string {
	var rejected *RejectedError
	if errors.As(err, &rejected) {
		return "Rejected"
	}
	for name, each := range map[string]error{
		"NotSubscribed": ErrNotSubscribed, "Unanswered": ErrUnanswered, "GenerationConflict": ErrGenerationConflict,
		"Withdrawn": ErrWithdrawn, "Handler": errHandler,
	} {
		if errors.Is(err, each) {
			return name
		}
	}
	return err.Error()
}

// plain returns a value as JSON has it.
func plain(t *testing.T, value any) (read any) {
	written, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(written, &read); err != nil {
		t.Fatal(err)
	}
	return read
}

func perform(t *testing.T, client *Client, step step) {
	handled := []any{}
	gives, err := call(client, step, &handled)
	fails := ""
	if err != nil {
		fails, gives = nameOf(err), nil
		for _, text := range step.Says {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%q does not say %q", err, text)
			}
		}
	}
	if fails != step.Fails || !reflect.DeepEqual(plain(t, gives), step.Gives) {
		t.Errorf("%s %s: gives %v and fails with %q; wanted %v and %q", step.Call, step.Key, gives, fails, step.Gives, step.Fails)
	}
	if step.Call == "onDraining" && !reflect.DeepEqual(plain(t, handled), step.Handled) {
		t.Errorf("handled %v; wanted %v", handled, step.Handled)
	}
}

func TestTheTranscriptOfThePythonClient(t *testing.T) {
	written, err := os.ReadFile(transcript)
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Conversations []*conversation }
	if err := json.Unmarshal(written, &all); err != nil {
		t.Fatal(err)
	}
	for _, each := range all.Conversations {
		t.Run(each.Name, func(t *testing.T) {
			replay := &replay{conversation: each}
			client := replay.client()
			for _, step := range each.Steps {
				switch {
				case step.Restart:
					client = replay.client()
				case step.Deliver != nil:
					replay.deliver(step.Deliver)
				default:
					perform(t, client, step)
				}
			}
			if replay.sentCount != len(each.Sent) || len(replay.messages) != each.Left {
				t.Errorf("%d sent, %d left; wanted %d and %d", replay.sentCount, len(replay.messages), len(each.Sent), each.Left)
			}
		})
	}
}
