// Code generated from docs/schemas by generate.mjs. DO NOT EDIT.

package reservoir

import "time"

// All affinity of a workload.
type Affinity struct {
	NodeAffinity    *NodeAffinity `json:"nodeAffinity,omitempty"`
	PodAffinity     *PodAffinity  `json:"podAffinity,omitempty"`
	PodAntiAffinity *PodAffinity  `json:"podAntiAffinity,omitempty"`
}

// Which nodes a replica needs or prefers.
type NodeAffinity struct {
	PreferredDuringSchedulingIgnoredDuringExecution []PreferredNodeSelectorTerm `json:"preferredDuringSchedulingIgnoredDuringExecution,omitempty"`
	RequiredDuringSchedulingIgnoredDuringExecution  *NodeSelectorSpec           `json:"requiredDuringSchedulingIgnoredDuringExecution,omitempty"`
}

// A preference; the heaviest counts as a requirement until it must be given up.
type PreferredNodeSelectorTerm struct {
	Preference NodeSelectorTerm `json:"preference"`
	Weight     int64            `json:"weight"`
}

// Requirements that must all hold.
type NodeSelectorTerm struct {
	MatchExpressions []NodeSelectorRequirement `json:"matchExpressions"`
}

// One requirement on a node label.
type NodeSelectorRequirement struct {
	Key      string   `json:"key"`
	Operator Operator `json:"operator"`
	Values   []string `json:"values,omitempty"`
}

// Terms of which one must hold; all of them count at once, whichever serves best.
type NodeSelectorSpec struct {
	NodeSelectorTerms []NodeSelectorTerm `json:"nodeSelectorTerms"`
}

// Required and preferred terms; for `podAntiAffinity` the same, away from the selected
// workloads.
type PodAffinity struct {
	PreferredDuringSchedulingIgnoredDuringExecution []WeightedPodAffinityTerm `json:"preferredDuringSchedulingIgnoredDuringExecution,omitempty"`
	RequiredDuringSchedulingIgnoredDuringExecution  []PodAffinityTerm         `json:"requiredDuringSchedulingIgnoredDuringExecution,omitempty"`
}

// A preference for being near or far.
type WeightedPodAffinityTerm struct {
	PodAffinityTerm PodAffinityTerm `json:"podAffinityTerm"`
	Weight          int64           `json:"weight"`
}

// Other workloads that a replica wants near or far, and what near means (`topologyKey`).
type PodAffinityTerm struct {
	LabelSelector LabelSelectorSpec `json:"labelSelector"`
	// Labels in which the other must equal this workload.
	MatchLabelKeys []string `json:"matchLabelKeys,omitempty"`
	Namespaces     []string `json:"namespaces,omitempty"`
	TopologyKey    string   `json:"topologyKey"`
}

// Selects workloads by their labels; an empty selector selects all.
type LabelSelectorSpec struct {
	MatchExpressions []LabelSelectorRequirement `json:"matchExpressions,omitempty"`
	MatchLabels      map[string]interface{}     `json:"matchLabels,omitempty"`
}

// One expression of a label selector.
type LabelSelectorRequirement struct {
	Key      string                `json:"key"`
	Operator LabelSelectorOperator `json:"operator"`
	Values   []string              `json:"values,omitempty"`
}

// A question about what is known of the workload. `Workload Described` answers on the bus;
// nothing changes.
type DescribeMessage struct {
	Action DescribeMessageAction `json:"action"`
	// Repeated in the answer, which so tells that it is younger than the question.
	RequestID string `json:"requestId"`
	// Version of the message format.
	SchemaVersion *int64             `json:"schemaVersion,omitempty"`
	Workload      WorkloadInQuestion `json:"workload"`
}

// Names a workload. With a `spec`, the answer says whether that spec is the stored one.
type WorkloadInQuestion struct {
	APIVersion *APIVersion      `json:"apiVersion,omitempty"`
	Kind       *Kind            `json:"kind,omitempty"`
	Metadata   WorkloadMetadata `json:"metadata"`
	// As it would be submitted; one that no submit could have is not compared.
	Spec interface{} `json:"spec,omitempty"`
	// Set by the server; not read.
	Status interface{} `json:"status,omitempty"`
}

// Metadata of a workload. `generation` decides which of two messages is the later one.
type WorkloadMetadata struct {
	Annotations map[string]interface{} `json:"annotations,omitempty"`
	// Set by the server; not read.
	CreationTimestamp interface{} `json:"creationTimestamp,omitempty"`
	// Counts the changes; a message with a lower one is old.
	Generation *int64                 `json:"generation,omitempty"`
	Labels     map[string]interface{} `json:"labels,omitempty"`
	Name       string                 `json:"name"`
	Namespace  *string                `json:"namespace,omitempty"`
	// Set by the server; not read.
	ResourceVersion interface{} `json:"resourceVersion,omitempty"`
	// Set by the server; not read.
	Uid interface{} `json:"uid,omitempty"`
}

// A drain in progress.
type DrainStatus struct {
	// Replicas of the workload that have not been released.
	Awaiting   int64       `json:"awaiting"`
	Deadline   time.Time   `json:"deadline"`
	DrainID    string      `json:"drainId"`
	NotifiedAt time.Time   `json:"notifiedAt"`
	Reason     DrainReason `json:"reason"`
}

// One step of the ladder: from then on this capacity type is allowed too.
type FallbackStepSpec struct {
	CapacityType CapacityType `json:"capacityType"`
	// Wait this long before the next step joins; only the last may leave it out.
	For *string `json:"for,omitempty"`
}

// EC2 refused a launch, or ended the instance before it ran; the replicas are demand again.
type LaunchFailed struct {
	// EC2's error code, or the state reason of the instance.
	Code       string         `json:"code"`
	Message    string         `json:"message"`
	NodeClaims []string       `json:"nodeClaims"`
	Offering   OfferingDetail `json:"offering"`
	// The offering is not tried before.
	UnavailableUntil *time.Time `json:"unavailableUntil,omitempty"`
	// Version of this detail's form.
	Version   int64            `json:"version"`
	Workloads []PlacedWorkload `json:"workloads"`
}

// The offering that was bought, or would have been.
type OfferingDetail struct {
	CapacityReservationID *string      `json:"capacityReservationId,omitempty"`
	CapacityType          CapacityType `json:"capacityType"`
	InstanceType          string       `json:"instanceType"`
	Zone                  string       `json:"zone"`
	ZoneID                string       `json:"zoneId"`
}

// Replicas of a workload on a node.
type PlacedWorkload struct {
	// The id of the demand message that the workload began with; every line of a log about it
	// has it.
	CorrelationID *string `json:"correlationId,omitempty"`
	Generation    *int64  `json:"generation,omitempty"`
	Name          string  `json:"name"`
	Namespace     string  `json:"namespace"`
	Replicas      int64   `json:"replicas"`
}

// A node with its name here and in EC2.
//
// The node as it is now, in its reservation.
type NodeDetail struct {
	CapacityReservationID *string      `json:"capacityReservationId,omitempty"`
	CapacityType          CapacityType `json:"capacityType"`
	InstanceID            *string      `json:"instanceId,omitempty"`
	InstanceType          string       `json:"instanceType"`
	NodeClaim             string       `json:"nodeClaim"`
	NodeClass             string       `json:"nodeClass"`
	NodePool              string       `json:"nodePool"`
	// Micro-USD an hour; 0 for reserved capacity, which is paid for anyway.
	PriceMicroUsdPerHour *int64 `json:"priceMicroUsdPerHour,omitempty"`
	Zone                 string `json:"zone"`
	ZoneID               string `json:"zoneId"`
}

// A node must go. Answer with `release` once the replicas have left; at the deadline it is
// terminated anyway.
type NodeDraining struct {
	Deadline time.Time `json:"deadline"`
	// The same in every repeat of this notification.
	DrainID    string      `json:"drainId"`
	Node       NodeDetail  `json:"node"`
	NotifiedAt time.Time   `json:"notifiedAt"`
	Reason     DrainReason `json:"reason"`
	// Version of this detail's form.
	Version   int64            `json:"version"`
	Workloads []PlacedWorkload `json:"workloads"`
}

// EC2 has an instance for the claim.
type NodeLaunched struct {
	LaunchedAt time.Time  `json:"launchedAt"`
	Node       NodeDetail `json:"node"`
	// Version of this detail's form.
	Version   int64            `json:"version"`
	Workloads []PlacedWorkload `json:"workloads"`
}

// EC2 moved a node that ran on demand into a reserved unit, without a restart: its replicas
// run on.
//
// `Node Capacity Type Changed` is published about the same node. A node that moves in again
// later is published
// again.
type NodeMovedIntoReservation struct {
	// The node as it is now, in its reservation.
	Node NodeDetail `json:"node"`
	// What it cost on demand; micro-USD an hour.
	PreviousPriceMicroUsdPerHour int64 `json:"previousPriceMicroUsdPerHour"`
	// The reservation that the unit was split off for it from, and goes back to when it ends.
	SplitFrom *string `json:"splitFrom,omitempty"`
	// Version of this detail's form.
	Version int64 `json:"version"`
	// What runs on it, as before.
	Workloads []PlacedWorkload `json:"workloads"`
}

// A node and how many of the workload's replicas are on it.
type NodePlacement struct {
	CapacityReservationID *string      `json:"capacityReservationId,omitempty"`
	CapacityType          CapacityType `json:"capacityType"`
	InstanceID            *string      `json:"instanceId,omitempty"`
	InstanceType          string       `json:"instanceType"`
	NodeClaim             string       `json:"nodeClaim"`
	NodeClass             string       `json:"nodeClass"`
	NodePool              string       `json:"nodePool"`
	// Micro-USD an hour; 0 for reserved capacity, which is paid for anyway.
	PriceMicroUsdPerHour *int64 `json:"priceMicroUsdPerHour,omitempty"`
	Replicas             int64  `json:"replicas"`
	Zone                 string `json:"zone"`
	ZoneID               string `json:"zoneId"`
}

// A node with replicas of the workload; those on a draining one count as demand again, and
// so not here.
type NodeStatus struct {
	CapacityReservationID *string      `json:"capacityReservationId,omitempty"`
	CapacityType          CapacityType `json:"capacityType"`
	Drain                 *DrainStatus `json:"drain,omitempty"`
	// Beside `replicas`: how many have their place here and must not start before those that
	// they follow have left their nodes (`release`), or `heldUntil`.
	Held         int64      `json:"held"`
	HeldUntil    *time.Time `json:"heldUntil,omitempty"`
	InstanceID   *string    `json:"instanceId,omitempty"`
	InstanceType string     `json:"instanceType"`
	LaunchedAt   *time.Time `json:"launchedAt,omitempty"`
	NodeClaim    string     `json:"nodeClaim"`
	NodeClass    string     `json:"nodeClass"`
	NodePool     string     `json:"nodePool"`
	// NodeClaims whose nodes drain and still run replicas that these follow.
	Predecessors []string `json:"predecessors"`
	// Micro-USD an hour; 0 for reserved capacity, which is paid for anyway.
	PriceMicroUsdPerHour *int64 `json:"priceMicroUsdPerHour,omitempty"`
	// How many of the replicas run, as far as the node has said.
	Ready     int64      `json:"ready"`
	Replicas  int64      `json:"replicas"`
	RunningAt *time.Time `json:"runningAt,omitempty"`
	State     ClaimState `json:"state"`
	Zone      string     `json:"zone"`
	ZoneID    string     `json:"zoneId"`
}

// A node is gone. Replicas that were still on it are demand again unless they were
// withdrawn.
type NodeTerminated struct {
	// What the workloads that it was last for are followed by, released or not.
	CorrelationIDS []string   `json:"correlationIds"`
	Node           NodeDetail `json:"node"`
	Reason         string     `json:"reason"`
	// Replicas that went back to demand.
	Returned     []PlacedWorkload `json:"returned"`
	TerminatedAt time.Time        `json:"terminatedAt"`
	// Version of this detail's form.
	Version int64 `json:"version"`
}

// One thing that is wrong with a message.
type RejectedProblem struct {
	Message    string  `json:"message"`
	Path       string  `json:"path"`
	Rule       string  `json:"rule"`
	Suggestion *string `json:"suggestion,omitempty"`
}

// The answer to `Node Draining`: replicas of the workload have left the node, ahead of the
// deadline.
type ReleaseMessage struct {
	Action ReleaseMessageAction `json:"action"`
	// The nodeClaim of the Node Draining event.
	NodeClaim string `json:"nodeClaim"`
	// How many have left; absent: all of them.
	Replicas *int64 `json:"replicas,omitempty"`
	// Version of the message format.
	SchemaVersion *int64            `json:"schemaVersion,omitempty"`
	Workload      WorkloadReference `json:"workload"`
}

// Names a workload; the whole manifest may be given, of which only the metadata is read.
type WorkloadReference struct {
	APIVersion *APIVersion      `json:"apiVersion,omitempty"`
	Kind       *Kind            `json:"kind,omitempty"`
	Metadata   WorkloadMetadata `json:"metadata"`
	// Not read.
	Spec interface{} `json:"spec,omitempty"`
	// Set by the server; not read.
	Status interface{} `json:"status,omitempty"`
}

// A replica's command ended with a failure; its node starts it again, after a pause that
// grows.
type ReplicaFailed struct {
	// A negative one is the signal that ended it.
	ExitCode int64 `json:"exitCode"`
	// It has failed so often in a row that a person should look.
	IsCrashLoop bool `json:"isCrashLoop"`
	// The end of what it wrote; anybody's text, without control characters.
	LogTail string `json:"logTail"`
	// How long the node waits before it starts it again.
	NextStartInS int64      `json:"nextStartInS"`
	Node         NodeDetail `json:"node"`
	// How often it was started again before, in a row.
	Restarts int64 `json:"restarts"`
	// Version of this detail's form.
	Version  int64       `json:"version"`
	Workload WorkloadRef `json:"workload"`
}

// Names a workload.
//
// Without a generation if nothing is stored under this name.
type WorkloadRef struct {
	// The id of the demand message that the workload began with; every line of a log about it
	// has it.
	CorrelationID *string `json:"correlationId,omitempty"`
	Generation    *int64  `json:"generation,omitempty"`
	Name          string  `json:"name"`
	Namespace     string  `json:"namespace"`
}

// Replicas have done what they were for: they leave their node and are not demand again.
type ReplicaFinished struct {
	// How many of the workload have finished in all.
	Finished int64 `json:"finished"`
	// The end of what they wrote; anybody's text, without control characters.
	LogTail string     `json:"logTail"`
	Node    NodeDetail `json:"node"`
	// How many have finished now.
	Replicas int64 `json:"replicas"`
	// Version of this detail's form.
	Version int64 `json:"version"`
	// How many the workload asks for.
	Wanted   int64       `json:"wanted"`
	Workload WorkloadRef `json:"workload"`
}

// Replicas run on a node, by their own command's report.
type ReplicaReady struct {
	Node NodeDetail `json:"node"`
	// How many have run on the node in all, those that have finished included.
	Replicas int64 `json:"replicas"`
	// Version of this detail's form.
	Version  int64       `json:"version"`
	Workload WorkloadRef `json:"workload"`
}

// A reservation ends in 14, 7 or 1 days, or so soon that this is the first that is known of
// it.
type ReservationEnding struct {
	CapacityReservationID string `json:"capacityReservationId"`
	// Which notice this is: 14, 7 or 1.
	Days int64 `json:"days"`
	// When the nodes in a Capacity Block must go.
	DrainAt *time.Time `json:"drainAt,omitempty"`
	EndAt   time.Time  `json:"endAt"`
	// For how long neither is there.
	GapS         *int64 `json:"gapS,omitempty"`
	InstanceType string `json:"instanceType"`
	// Nodes of this deployment in it now.
	NodeCount int64 `json:"nodeCount"`
	// What was placed in it within the last 14 days, and how many replicas; absent: nobody
	// could look. Demand like it would be without.
	RecentWorkloads []PlacedWorkload `json:"recentWorkloads,omitempty"`
	// The reservation that goes on where this one ends.
	Successor *string `json:"successor,omitempty"`
	Units     int64   `json:"units"`
	// Version of this detail's form.
	Version int64 `json:"version"`
	// What runs on these, and would be without it.
	Workloads []PlacedWorkload `json:"workloads"`
	Zone      string           `json:"zone"`
	ZoneID    string           `json:"zoneId"`
}

// What one replica needs. A limit without a request is a request, as in Kubernetes.
type ResourceRequests struct {
	Limits   map[string]interface{} `json:"limits,omitempty"`
	Requests map[string]interface{} `json:"requests,omitempty"`
}

// How many replicas an update may have too many or too few, as in a Deployment.
type RollingUpdateSpec struct {
	// Beyond those wanted; a percentage is rounded up.
	MaxSurge *string `json:"maxSurge,omitempty"`
	// Of those wanted; a percentage is rounded down. Not both 0.
	MaxUnavailable *string `json:"maxUnavailable,omitempty"`
}

// What becomes of replicas that run when the spec changes.
type StrategySpec struct {
	RollingUpdate *RollingUpdateSpec `json:"rollingUpdate,omitempty"`
	// RollingUpdate: they are replaced, node by node; OnDelete: they stay until they leave.
	Type *Type `json:"type,omitempty"`
}

// A workload is wanted, or wanted differently; the higher `metadata.generation` wins in any
// order of arrival.
type SubmitMessage struct {
	Action SubmitMessageAction `json:"action"`
	// Version of the message format.
	SchemaVersion *int64           `json:"schemaVersion,omitempty"`
	Workload      WorkloadManifest `json:"workload"`
}

// A workload.
type WorkloadManifest struct {
	APIVersion APIVersion       `json:"apiVersion"`
	Kind       Kind             `json:"kind"`
	Metadata   WorkloadMetadata `json:"metadata"`
	Spec       WorkloadSpec     `json:"spec"`
	// Set by the server; not read.
	Status interface{} `json:"status,omitempty"`
}

// The wanted state of a workload.
type WorkloadSpec struct {
	Affinity *Affinity `json:"affinity,omitempty"`
	// How much notice it wants before a drain's deadline.
	CheckpointPeriod *string `json:"checkpointPeriod,omitempty"`
	// How long it runs; it is not put where it would be drained earlier.
	Duration *string `json:"duration,omitempty"`
	// Ladder of capacity types; without it all that the pools allow count at once.
	Fallback []FallbackStepSpec `json:"fallback,omitempty"`
	// All replicas or none.
	Gang *bool `json:"gang,omitempty"`
	// All replicas of the gang in one value of this label.
	GangTopologyKey *GangTopologyKey `json:"gangTopologyKey,omitempty"`
	// Whether a replica starts only once the one that it follows has left its node, or has had
	// to; true with a `checkpointPeriod`, unless said otherwise. Said to be true, a `duration`
	// does not keep the work out of a reservation that ends earlier: it is drained then, and
	// goes on elsewhere.
	Handover *bool `json:"handover,omitempty"`
	// USD an hour for all replicas together.
	MaxPricePerHour interface{}            `json:"maxPricePerHour,omitempty"`
	NodeSelector    map[string]interface{} `json:"nodeSelector,omitempty"`
	// Higher goes first.
	Priority  *int64            `json:"priority,omitempty"`
	Replicas  *int64            `json:"replicas,omitempty"`
	Resources *ResourceRequests `json:"resources,omitempty"`
	// What becomes of replicas that run when the spec changes; absent: they stay until they
	// leave. Neither gangs nor work that is handed over can be replaced node by node.
	Strategy                  *StrategySpec    `json:"strategy,omitempty"`
	Tolerations               []TolerationSpec `json:"tolerations,omitempty"`
	TopologySpreadConstraints []TopologySpread `json:"topologySpreadConstraints,omitempty"`
}

// A toleration.
type TolerationSpec struct {
	Effect   *TaintEffect        `json:"effect,omitempty"`
	Key      *string             `json:"key,omitempty"`
	Operator *TolerationOperator `json:"operator,omitempty"`
	// Ignored: tolerationSeconds has no effect: drains follow the Node Draining protocol.
	TolerationSeconds interface{} `json:"tolerationSeconds,omitempty"`
	Value             *string     `json:"value,omitempty"`
}

// Spread replicas evenly over zones, hosts or capacity types.
type TopologySpread struct {
	LabelSelector      LabelSelectorSpec `json:"labelSelector"`
	MatchLabelKeys     []string          `json:"matchLabelKeys,omitempty"`
	MaxSkew            int64             `json:"maxSkew"`
	MinDomains         *int64            `json:"minDomains,omitempty"`
	NodeAffinityPolicy *NodePolicy       `json:"nodeAffinityPolicy,omitempty"`
	NodeTaintsPolicy   *NodePolicy       `json:"nodeTaintsPolicy,omitempty"`
	TopologyKey        string            `json:"topologyKey"`
	WhenUnsatisfiable  WhenUnsatisfiable `json:"whenUnsatisfiable"`
}

// Replicas that wait, and why.
type UnplacedDetail struct {
	// When the reason could change by itself.
	EarliestAt *time.Time `json:"earliestAt,omitempty"`
	Message    string     `json:"message"`
	Reason     ReasonCode `json:"reason"`
	Replicas   int64      `json:"replicas"`
}

// A workload is no longer wanted: its replicas are drained, and submits of its generation
// or older are ignored.
type WithdrawMessage struct {
	Action WithdrawMessageAction `json:"action"`
	// Version of the message format.
	SchemaVersion *int64            `json:"schemaVersion,omitempty"`
	Workload      WorkloadReference `json:"workload"`
}

// A message was applied: the generation that it brought is wanted from now on, or the
// replicas have left.
type WorkloadAccepted struct {
	// `submit`, `update`, `withdraw` or `release`.
	Action string `json:"action"`
	// SQS's id of the message, which its sender was given.
	MessageID string `json:"messageId"`
	// Version of this detail's form.
	Version  int64       `json:"version"`
	Workload WorkloadRef `json:"workload"`
}

// The answer to `describe`: the stored workload, and its nodes. Long lists come in several
// parts.
type WorkloadDescribed struct {
	// Of what was submitted last, whatever its generation; equal content, equal digest.
	ContentDigest *string `json:"contentDigest,omitempty"`
	// Replicas that have done what they were for.
	Finished int64 `json:"finished"`
	// Whether the spec and metadata of the question are what is wanted, whatever the
	// generation; absent if it had no spec, or none that could be submitted.
	IsStored *bool `json:"isStored,omitempty"`
	// May lag by moments: as long as their replicas do not add up, ask again.
	Nodes []NodeStatus `json:"nodes"`
	// Which of the parts this is, from 1.
	Part      int64 `json:"part"`
	PartCount int64 `json:"partCount"`
	// Replicas that have a place; the nodes may still be launching.
	Placed int64 `json:"placed"`
	// That of the question; all parts of an answer have it.
	RequestID string     `json:"requestId"`
	SentAt    *time.Time `json:"sentAt,omitempty"`
	// Who sent the stored generation, as SQS knows them.
	SentBy *string `json:"sentBy,omitempty"`
	// Version of this detail's form.
	Version int64 `json:"version"`
	// As the last plan left them.
	Waiting []UnplacedDetail `json:"waiting"`
	// Replicas.
	Wanted    int64 `json:"wanted"`
	Withdrawn bool  `json:"withdrawn"`
	// Without a generation if nothing is stored under this name.
	Workload WorkloadRef `json:"workload"`
}

// A message was understood and changes nothing. A message that is delivered twice may be
// accepted, then this.
type WorkloadIgnored struct {
	// `submit`, `update`, `withdraw` or `release`.
	Action string `json:"action"`
	// SQS's id of the message, which its sender was given.
	MessageID string        `json:"messageId"`
	Reason    IgnoredReason `json:"reason"`
	// What is stored instead; absent for a release.
	StoredGeneration *int64 `json:"storedGeneration,omitempty"`
	// Version of this detail's form.
	Version  int64       `json:"version"`
	Workload WorkloadRef `json:"workload"`
}

// Interruptions have cost a workload more than spot saved it: its replicas are placed
// without spot until then.
//
// Where on-demand nodes cannot serve it, by its own ladder or by its pools, it stays on
// spot all the same.
type WorkloadLeftSpot struct {
	Reason string `json:"reason"`
	// How often it has left spot in a row; it rests from it longer each time.
	Times int64     `json:"times"`
	Until time.Time `json:"until"`
	// Version of this detail's form.
	Version  int64       `json:"version"`
	Workload WorkloadRef `json:"workload"`
}

// Replicas wait, and why.
type WorkloadPending struct {
	// When the reason could change by itself.
	EarliestAt      *time.Time      `json:"earliestAt,omitempty"`
	Message         string          `json:"message"`
	NearestOffering *OfferingDetail `json:"nearestOffering,omitempty"`
	Reason          ReasonCode      `json:"reason"`
	Replicas        int64           `json:"replicas"`
	// Version of this detail's form.
	Version  int64       `json:"version"`
	Workload WorkloadRef `json:"workload"`
}

// Replicas got a place. The nodes may still be launching; `Node Launched` follows.
type WorkloadPlaced struct {
	Nodes []NodePlacement `json:"nodes"`
	// How many were placed by this decision.
	Replicas int64 `json:"replicas"`
	// Version of this detail's form.
	Version  int64       `json:"version"`
	Workload WorkloadRef `json:"workload"`
}

// A message was not understood and changes nothing; it lies in the dead-letter queue.
type WorkloadRejected struct {
	MessageID string            `json:"messageId"`
	Problems  []RejectedProblem `json:"problems"`
	// Version of this detail's form.
	Version int64 `json:"version"`
	// Absent when not even the name could be read.
	Workload *WorkloadRef `json:"workload,omitempty"`
}

// How a requirement compares a label with its values.
type Operator string

const (
	Gt                   Operator = "Gt"
	Gte                  Operator = "Gte"
	LTE                  Operator = "Lte"
	Lt                   Operator = "Lt"
	OperatorDoesNotExist Operator = "DoesNotExist"
	OperatorExists       Operator = "Exists"
	OperatorIn           Operator = "In"
	OperatorNotIn        Operator = "NotIn"
)

// Operators of a label selector's expressions.
type LabelSelectorOperator string

const (
	LabelSelectorOperatorDoesNotExist LabelSelectorOperator = "DoesNotExist"
	LabelSelectorOperatorExists       LabelSelectorOperator = "Exists"
	LabelSelectorOperatorIn           LabelSelectorOperator = "In"
	LabelSelectorOperatorNotIn        LabelSelectorOperator = "NotIn"
)

// How capacity is bought; the value of the label `karpenter.sh/capacity-type`.
type CapacityType string

const (
	OnDemand CapacityType = "on-demand"
	Reserved CapacityType = "reserved"
	Spot     CapacityType = "spot"
)

// Where a claim is in its life.
type ClaimState string

const (
	Draining    ClaimState = "draining"
	Failed      ClaimState = "failed"
	Launched    ClaimState = "launched"
	Launching   ClaimState = "launching"
	Planned     ClaimState = "planned"
	Running     ClaimState = "running"
	Terminated  ClaimState = "terminated"
	Terminating ClaimState = "terminating"
)

type DescribeMessageAction string

const (
	Describe DescribeMessageAction = "describe"
)

type APIVersion string

const (
	ReservoirV1 APIVersion = "reservoir/v1"
)

type Kind string

const (
	Workload Kind = "Workload"
)

// Why a node must go; the reason in `Node Draining`.
type DrainReason string

const (
	CapacityBlockEnding  DrainReason = "CapacityBlockEnding"
	Consolidation        DrainReason = "Consolidation"
	DrainReasonWithdrawn DrainReason = "Withdrawn"
	Drift                DrainReason = "Drift"
	Empty                DrainReason = "Empty"
	Expired              DrainReason = "Expired"
	Interruption         DrainReason = "Interruption"
	NodePoolDeleted      DrainReason = "NodePoolDeleted"
	Rebalance            DrainReason = "Rebalance"
	Reclaimed            DrainReason = "Reclaimed"
	Requested            DrainReason = "Requested"
	ScaledDown           DrainReason = "ScaledDown"
	ScheduledChange      DrainReason = "ScheduledChange"
	Unhealthy            DrainReason = "Unhealthy"
)

// Why a message changed nothing.
type IgnoredReason string

const (
	IgnoredReasonWithdrawn IgnoredReason = "Withdrawn"
	NotAwaited             IgnoredReason = "NotAwaited"
	OlderGeneration        IgnoredReason = "OlderGeneration"
	Unchanged              IgnoredReason = "Unchanged"
)

// Whether spread domains that the replica cannot use are counted (Honor: they are not).
type NodePolicy string

const (
	Honor  NodePolicy = "Honor"
	Ignore NodePolicy = "Ignore"
)

// Why replicas are not placed: the binding constraint.
type ReasonCode string

const (
	DurationDoesNotFit    ReasonCode = "DurationDoesNotFit"
	FallbackNotYet        ReasonCode = "FallbackNotYet"
	GangIncomplete        ReasonCode = "GangIncomplete"
	Incompatible          ReasonCode = "Incompatible"
	LimitExceeded         ReasonCode = "LimitExceeded"
	MaxPrice              ReasonCode = "MaxPrice"
	MinValues             ReasonCode = "MinValues"
	NoNodePool            ReasonCode = "NoNodePool"
	NodeClassNotReady     ReasonCode = "NodeClassNotReady"
	NodePoolPaused        ReasonCode = "NodePoolPaused"
	OfferingUnavailable   ReasonCode = "OfferingUnavailable"
	OutOfTime             ReasonCode = "OutOfTime"
	PlanRejected          ReasonCode = "PlanRejected"
	ReservationFull       ReasonCode = "ReservationFull"
	ReservationNotStarted ReasonCode = "ReservationNotStarted"
	SpotShare             ReasonCode = "SpotShare"
	TeamBudget            ReasonCode = "TeamBudget"
	TeamQuota             ReasonCode = "TeamQuota"
	TooLarge              ReasonCode = "TooLarge"
	Topology              ReasonCode = "Topology"
)

type ReleaseMessageAction string

const (
	Release ReleaseMessageAction = "release"
)

// RollingUpdate: they are replaced, node by node; OnDelete: they stay until they leave.
type Type string

const (
	OnDelete      Type = "OnDelete"
	RollingUpdate Type = "RollingUpdate"
)

type SubmitMessageAction string

const (
	Submit SubmitMessageAction = "submit"
	Update SubmitMessageAction = "update"
)

type GangTopologyKey string

const (
	KarpenterK8SAwsPlacementGroupID GangTopologyKey = "karpenter.k8s.aws/placement-group-id"
	TopologyK8SAwsNetworkNodeLayer1 GangTopologyKey = "topology.k8s.aws/network-node-layer-1"
	TopologyK8SAwsNetworkNodeLayer2 GangTopologyKey = "topology.k8s.aws/network-node-layer-2"
	TopologyK8SAwsNetworkNodeLayer3 GangTopologyKey = "topology.k8s.aws/network-node-layer-3"
	TopologyK8SAwsUltraserverID     GangTopologyKey = "topology.k8s.aws/ultraserver-id"
	TopologyK8SAwsZoneID            GangTopologyKey = "topology.k8s.aws/zone-id"
	TopologyKubernetesIoZone        GangTopologyKey = "topology.kubernetes.io/zone"
)

// What a taint does to replicas that do not tolerate it.
type TaintEffect string

const (
	NoExecute        TaintEffect = "NoExecute"
	NoSchedule       TaintEffect = "NoSchedule"
	PreferNoSchedule TaintEffect = "PreferNoSchedule"
)

// How a toleration compares.
type TolerationOperator string

const (
	Equal                    TolerationOperator = "Equal"
	TolerationOperatorExists TolerationOperator = "Exists"
)

// What a spread constraint that cannot be met does.
type WhenUnsatisfiable string

const (
	DoNotSchedule  WhenUnsatisfiable = "DoNotSchedule"
	ScheduleAnyway WhenUnsatisfiable = "ScheduleAnyway"
)

type WithdrawMessageAction string

const (
	Withdraw WithdrawMessageAction = "withdraw"
)

// The facts that a subscription lets in.
var details = map[string]func() any{
	"Launch Failed":               func() any { return new(LaunchFailed) },
	"Node Draining":               func() any { return new(NodeDraining) },
	"Node Launched":               func() any { return new(NodeLaunched) },
	"Node Moved Into Reservation": func() any { return new(NodeMovedIntoReservation) },
	"Node Terminated":             func() any { return new(NodeTerminated) },
	"Replica Failed":              func() any { return new(ReplicaFailed) },
	"Replica Finished":            func() any { return new(ReplicaFinished) },
	"Replica Ready":               func() any { return new(ReplicaReady) },
	"Reservation Ending":          func() any { return new(ReservationEnding) },
	"Workload Accepted":           func() any { return new(WorkloadAccepted) },
	"Workload Described":          func() any { return new(WorkloadDescribed) },
	"Workload Ignored":            func() any { return new(WorkloadIgnored) },
	"Workload Left Spot":          func() any { return new(WorkloadLeftSpot) },
	"Workload Pending":            func() any { return new(WorkloadPending) },
	"Workload Placed":             func() any { return new(WorkloadPlaced) },
	"Workload Rejected":           func() any { return new(WorkloadRejected) },
}
