package reservoir

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

var (
	// ErrNotSubscribed: the call needs an answer, and the client was made without a queue to hear it on.
	ErrNotSubscribed = errors.New("not subscribed")
	// ErrUnanswered: nobody answered in time. What was sent may still come about; again changes nothing twice.
	ErrUnanswered = errors.New("unanswered")
	// ErrGenerationConflict: somebody else has written the workload, nothing of ours is stored. Decide again.
	ErrGenerationConflict = errors.New("generation conflict")
	// ErrWithdrawn: the workload that is waited for was withdrawn, or nobody has sent it.
	ErrWithdrawn = errors.New("withdrawn")
)

// RejectedError: what was sent cannot be; it changed nothing.
type RejectedError struct {
	Key      string
	Problems []RejectedProblem
}

func (e *RejectedError) Error() string {
	return e.Key + " was rejected: " + told(e.Problems)
}

func told(problems []RejectedProblem) string {
	sentences := []string{}
	for _, problem := range problems {
		sentences = append(sentences, problem.Path+": "+problem.Message)
	}
	return strings.Join(sentences, "; ")
}

func refusal(key string, problems []RejectedProblem) error {
	for _, problem := range problems {
		if problem.Rule == "generation-taken" {
			return fmt.Errorf("%w: %s", ErrGenerationConflict, told(problems))
		}
	}
	return &RejectedError{key, problems}
}

func conflict(key string, generation int64, known *WorkloadDescribed) error {
	what, by, at := "sent", "", ""
	if known.Withdrawn {
		what = "withdrawn"
	}
	if known.SentBy != nil {
		by = " by " + *known.SentBy
	}
	if known.SentAt != nil {
		at = " at " + known.SentAt.Format(time.RFC3339)
	}
	return fmt.Errorf("%w: generation %d of %s is not what is stored: generation %d was %s%s%s",
		ErrGenerationConflict, generation, key, storedIn(known), what, by, at)
}

func unanswered(key string) error {
	return fmt.Errorf("%w: no answer came about %s in time: is the subscription of its namespace?", ErrUnanswered, key)
}

func notSubscribed(call string) error {
	return fmt.Errorf("%w: %s needs an answer: give the client the queue of a subscription", ErrNotSubscribed, call)
}
