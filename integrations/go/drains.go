package reservoir

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

// OnDraining calls handle once for each drain of whose; when it returns nil, those replicas are released.
//
// whose names namespaces, or single workloads (namespace/name). The latter are asked for first, so that drains of which
// the notice was missed are handled too. If handle fails, nothing is released, and the drain is handled again by the
// next call, in whichever process. It returns when ctx is done, or no notice comes for idle (0: no limit).
func (c *Client) OnDraining(
	ctx context.Context, handle func(context.Context, NodeDraining) error, whose []string, idle time.Duration,
) error {
	if c.listener == nil {
		return notSubscribed("OnDraining")
	}
	stream, end := c.listener.open(func(fact *Fact) bool { return fact.Type == "Node Draining" }, true)
	defer end()
	for _, key := range whose {
		if !strings.Contains(key, "/") {
			continue
		}
		known, err := c.Status(ctx, key)
		if err != nil {
			return err
		}
		for _, notice := range drainsOf(known) {
			if err := c.handle(ctx, notice, handle); err != nil {
				return err
			}
		}
	}
	for {
		fact, err := c.listener.next(ctx, stream, cmp.Or(idle, forever))
		if fact == nil {
			return err
		}
		if err := c.handle(ctx, ours(*fact.Detail.(*NodeDraining), whose), handle); err != nil {
			return err
		}
		if err := c.listener.finish(ctx, fact, stream); err != nil {
			return err
		}
	}
}

func (c *Client) handle(
	ctx context.Context, notice NodeDraining, handle func(context.Context, NodeDraining) error,
) error {
	notice.Workloads = c.handled.news(notice)
	if len(notice.Workloads) == 0 {
		return nil
	}
	if err := handle(ctx, notice); err != nil {
		return err
	}
	for _, one := range notice.Workloads {
		if err := c.Release(ctx, keyOf(one.Namespace, one.Name), notice.Node.NodeClaim, 0); err != nil {
			return err
		}
	}
	c.handled.add(notice)
	return nil
}

// handledDrains are the workloads of drains that were handled; the oldest are forgotten.
type handledDrains struct {
	mutex  sync.Mutex
	known  map[string]bool
	oldest []string
}

// news returns what was not handled: a notice that is repeated may name more workloads than before.
func (h *handledDrains) news(notice NodeDraining) (unknown []PlacedWorkload) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for _, one := range notice.Workloads {
		if !h.known[notice.DrainID+" "+keyOf(one.Namespace, one.Name)] {
			unknown = append(unknown, one)
		}
	}
	return unknown
}

func (h *handledDrains) add(notice NodeDraining) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for _, one := range notice.Workloads {
		mark := notice.DrainID + " " + keyOf(one.Namespace, one.Name)
		h.known[mark] = true
		h.oldest = append(h.oldest, mark)
	}
	for len(h.oldest) > remembered {
		delete(h.known, h.oldest[0])
		h.oldest = h.oldest[1:]
	}
}

// ours leaves in a notice the workloads of whose: what others run on a shared node is theirs to release.
func ours(notice NodeDraining, whose []string) NodeDraining {
	mine := []PlacedWorkload{}
	for _, one := range notice.Workloads {
		if slices.Contains(whose, one.Namespace) || slices.Contains(whose, keyOf(one.Namespace, one.Name)) {
			mine = append(mine, one)
		}
	}
	notice.Workloads = mine
	return notice
}

// drainsOf returns the notices that somebody who heard nothing has missed.
func drainsOf(known *WorkloadDescribed) (notices []NodeDraining) {
	for _, node := range known.Nodes {
		if node.Drain == nil || node.Drain.Awaiting == 0 {
			continue
		}
		awaiting := PlacedWorkload{
			Namespace: known.Workload.Namespace, Name: known.Workload.Name, Replicas: node.Drain.Awaiting,
		}
		notices = append(notices, NodeDraining{
			Version: 1, DrainID: node.Drain.DrainID, Reason: node.Drain.Reason,
			NotifiedAt: node.Drain.NotifiedAt, Deadline: node.Drain.Deadline,
			Workloads: []PlacedWorkload{awaiting},
			Node: NodeDetail{
				CapacityReservationID: node.CapacityReservationID, CapacityType: node.CapacityType,
				InstanceID: node.InstanceID, InstanceType: node.InstanceType,
				NodeClaim: node.NodeClaim, NodeClass: node.NodeClass, NodePool: node.NodePool,
				PriceMicroUsdPerHour: node.PriceMicroUsdPerHour, Zone: node.Zone, ZoneID: node.ZoneID,
			},
		})
	}
	return notices
}
