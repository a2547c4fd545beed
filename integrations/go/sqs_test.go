package reservoir

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// More messages than SQS takes or gives at once come through a queue, each once, and are gone when they are deleted.
func TestAQueueOfSqs(t *testing.T) {
	url := os.Getenv("RESERVOIR_TEST_QUEUE_URL")
	if url == "" {
		t.Skip("RESERVOIR_TEST_QUEUE_URL names no empty queue")
	}
	ctx := context.Background()
	queue := SqsQueue{clientOfTheEnvironment(), url}

	sent, ids := []string{}, []string{}
	for number := range atOnce + 1 {
		body := fmt.Sprintf(`{"number": %d, "text": "ä"}`, number)
		id, err := queue.Send(ctx, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		sent, ids = append(sent, body), append(ids, id)
	}

	bodies, receivedIDs, receipts := []string{}, []string{}, []string{}
	for len(bodies) < len(sent) {
		deliveries := receive(t, queue, time.Second)
		if len(deliveries) == 0 {
			t.Fatalf("%d of %d messages came", len(bodies), len(sent))
		}
		for _, it := range deliveries {
			bodies, receivedIDs = append(bodies, it.Body), append(receivedIDs, it.MessageID)
			receipts = append(receipts, it.Receipt)
		}
	}
	same(t, bodies, sent)
	same(t, receivedIDs, ids)

	if err := queue.Delete(ctx, receipts); err != nil {
		t.Fatal(err)
	}
	// the queue hides what it gave for a second
	time.Sleep(1500 * time.Millisecond)
	if left := receive(t, queue, 0); len(left) > 0 {
		t.Errorf("%d messages are left", len(left))
	}
}

// clientOfTheEnvironment does what AWS's config module does, which the client itself has no need of.
func clientOfTheEnvironment() *sqs.Client {
	credentials := func(context.Context) (aws.Credentials, error) {
		key, secret := os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY")
		return aws.Credentials{AccessKeyID: key, SecretAccessKey: secret}, nil
	}
	return sqs.New(sqs.Options{
		Region:       os.Getenv("AWS_REGION"),
		BaseEndpoint: aws.String(os.Getenv("AWS_ENDPOINT_URL")),
		Credentials:  aws.CredentialsProviderFunc(credentials),
	})
}

func receive(t *testing.T, queue SqsQueue, wait time.Duration) []Delivery {
	t.Helper()
	deliveries, err := queue.Receive(context.Background(), wait)
	if err != nil {
		t.Fatal(err)
	}
	return deliveries
}

func same(t *testing.T, got, wanted []string) {
	t.Helper()
	slices.Sort(got)
	slices.Sort(wanted)
	if !slices.Equal(got, wanted) {
		t.Errorf("%v is not %v", got, wanted)
	}
}
