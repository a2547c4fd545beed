package reservoir

import (
	"context"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

const atOnce = 10

// Connect connects to a demand queue, and to the queue of a subscription ("": none) if answers are wanted.
func Connect(client *sqs.Client, demandQueueURL, eventsQueueURL string) *Client {
	var inbox Inbox
	if eventsQueueURL != "" {
		inbox = SqsQueue{client, eventsQueueURL}
	}
	return New(SqsQueue{client, demandQueueURL}, inbox, nil)
}

// SqsQueue is a queue of SQS; it implements Outbox and Inbox.
type SqsQueue struct {
	Client *sqs.Client
	URL    string
}

// Send sends a message. A lost answer has it sent twice; each is applied once by its generation.
func (q SqsQueue) Send(ctx context.Context, message []byte) (string, error) {
	sent, err := q.Client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &q.URL, MessageBody: aws.String(string(message))})
	if err != nil {
		return "", err
	}
	return aws.ToString(sent.MessageId), nil
}

// Receive receives up to ten messages.
func (q SqsQueue) Receive(ctx context.Context, wait time.Duration) ([]Delivery, error) {
	answer, err := q.Client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: &q.URL, MaxNumberOfMessages: atOnce, WaitTimeSeconds: int32(wait / time.Second),
	})
	if err != nil {
		return nil, err
	}
	deliveries := []Delivery{}
	for _, it := range answer.Messages {
		deliveries = append(deliveries, Delivery{*it.MessageId, *it.ReceiptHandle, *it.Body})
	}
	return deliveries, nil
}

// Delete deletes in batches; a receipt that has expired belongs to a message that comes again.
func (q SqsQueue) Delete(ctx context.Context, receipts []string) error {
	for len(receipts) > 0 {
		count := min(len(receipts), atOnce)
		entries := []types.DeleteMessageBatchRequestEntry{}
		for index, receipt := range receipts[:count] {
			entries = append(entries, types.DeleteMessageBatchRequestEntry{
				Id: aws.String(strconv.Itoa(index)), ReceiptHandle: &receipt,
			})
		}
		input := &sqs.DeleteMessageBatchInput{QueueUrl: &q.URL, Entries: entries}
		if _, err := q.Client.DeleteMessageBatch(ctx, input); err != nil {
			return err
		}
		receipts = receipts[count:]
	}
	return nil
}
