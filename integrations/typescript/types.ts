// Generated from docs/schemas by generate.mjs.

/**
 * How a requirement compares a label with its values.
 */
export type Operator = "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" | "Gte" | "Lte";
/**
 * Operators of a label selector's expressions.
 */
export type LabelSelectorOperator = "In" | "NotIn" | "Exists" | "DoesNotExist";
/**
 * How capacity is bought; the value of the label `karpenter.sh/capacity-type`.
 */
export type CapacityType = "reserved" | "spot" | "on-demand";
/**
 * Whether spread domains that the replica cannot use are counted (Honor: they are not).
 */
export type NodePolicy = "Honor" | "Ignore";
/**
 * What a taint does to replicas that do not tolerate it.
 */
export type TaintEffect = "NoSchedule" | "PreferNoSchedule" | "NoExecute";
/**
 * How a toleration compares.
 */
export type TolerationOperator = "Exists" | "Equal";
/**
 * What a spread constraint that cannot be met does.
 */
export type WhenUnsatisfiable = "DoNotSchedule" | "ScheduleAnyway";
/**
 * Why a node must go; the reason in `Node Draining`.
 */
export type DrainReason =
  | "CapacityBlockEnding"
  | "Interruption"
  | "ScheduledChange"
  | "Rebalance"
  | "Withdrawn"
  | "Empty"
  | "Consolidation"
  | "Drift"
  | "NodePoolDeleted"
  | "Expired"
  | "Unhealthy"
  | "Reclaimed"
  | "Requested"
  | "ScaledDown";
/**
 * Where a claim is in its life.
 */
export type ClaimState =
  "planned" | "launching" | "launched" | "running" | "draining" | "terminating" | "terminated" | "failed";
/**
 * Why replicas are not placed: the binding constraint.
 */
export type ReasonCode =
  | "NoNodePool"
  | "Incompatible"
  | "TooLarge"
  | "ReservationFull"
  | "TeamQuota"
  | "ReservationNotStarted"
  | "DurationDoesNotFit"
  | "FallbackNotYet"
  | "OfferingUnavailable"
  | "MaxPrice"
  | "TeamBudget"
  | "LimitExceeded"
  | "Topology"
  | "GangIncomplete"
  | "NodeClassNotReady"
  | "MinValues"
  | "SpotShare"
  | "OutOfTime"
  | "NodePoolPaused"
  | "PlanRejected";
/**
 * Why a message changed nothing.
 */
export type IgnoredReason = "Unchanged" | "OlderGeneration" | "Withdrawn" | "NotAwaited";

/**
 * All affinity of a workload.
 */
export interface Affinity {
  nodeAffinity?: NodeAffinity;
  podAffinity?: PodAffinity;
  podAntiAffinity?: PodAffinity;
}
/**
 * Which nodes a replica needs or prefers.
 */
export interface NodeAffinity {
  /**
   * @maxItems 50
   */
  preferredDuringSchedulingIgnoredDuringExecution?: PreferredNodeSelectorTerm[];
  requiredDuringSchedulingIgnoredDuringExecution?: NodeSelectorSpec | null;
}
/**
 * A preference; the heaviest counts as a requirement until it must be given up.
 */
export interface PreferredNodeSelectorTerm {
  preference: NodeSelectorTerm;
  weight: number;
}
/**
 * Requirements that must all hold.
 */
export interface NodeSelectorTerm {
  /**
   * @minItems 1
   * @maxItems 100
   */
  matchExpressions: [NodeSelectorRequirement, ...NodeSelectorRequirement[]];
}
/**
 * One requirement on a node label.
 */
export interface NodeSelectorRequirement {
  key: (
    | (
        | "karpenter.k8s.aws/capacity-reservation-id"
        | "karpenter.k8s.aws/capacity-reservation-interruptible"
        | "karpenter.k8s.aws/capacity-reservation-setting"
        | "karpenter.k8s.aws/capacity-reservation-type"
        | "karpenter.k8s.aws/ec2nodeclass"
        | "karpenter.k8s.aws/instance-accelerator-count"
        | "karpenter.k8s.aws/instance-accelerator-manufacturer"
        | "karpenter.k8s.aws/instance-accelerator-name"
        | "karpenter.k8s.aws/instance-capability-flex"
        | "karpenter.k8s.aws/instance-category"
        | "karpenter.k8s.aws/instance-cpu"
        | "karpenter.k8s.aws/instance-cpu-manufacturer"
        | "karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz"
        | "karpenter.k8s.aws/instance-ebs-bandwidth"
        | "karpenter.k8s.aws/instance-encryption-in-transit-supported"
        | "karpenter.k8s.aws/instance-family"
        | "karpenter.k8s.aws/instance-generation"
        | "karpenter.k8s.aws/instance-gpu-count"
        | "karpenter.k8s.aws/instance-gpu-manufacturer"
        | "karpenter.k8s.aws/instance-gpu-memory"
        | "karpenter.k8s.aws/instance-gpu-name"
        | "karpenter.k8s.aws/instance-hypervisor"
        | "karpenter.k8s.aws/instance-local-nvme"
        | "karpenter.k8s.aws/instance-memory"
        | "karpenter.k8s.aws/instance-network-bandwidth"
        | "karpenter.k8s.aws/instance-pods"
        | "karpenter.k8s.aws/instance-size"
        | "karpenter.k8s.aws/instance-tenancy"
        | "karpenter.k8s.aws/nitro-sandbox"
        | "karpenter.k8s.aws/placement-group-id"
        | "karpenter.k8s.aws/placement-group-partition"
        | "karpenter.sh/capacity-type"
        | "karpenter.sh/nodepool"
        | "kubernetes.io/arch"
        | "kubernetes.io/os"
        | "node.kubernetes.io/instance-type"
        | "node.kubernetes.io/windows-build"
        | "reservoir/gpu-fraction"
        | "topology.k8s.aws/network-node-layer-1"
        | "topology.k8s.aws/network-node-layer-2"
        | "topology.k8s.aws/network-node-layer-3"
        | "topology.k8s.aws/ultraserver-id"
        | "topology.k8s.aws/zone-id"
        | "topology.kubernetes.io/region"
        | "topology.kubernetes.io/zone"
      )
    | string
  ) &
    string;
  operator: Operator;
  /**
   * @maxItems 2000
   */
  values?: string[];
}
/**
 * Terms of which one must hold; all of them count at once, whichever serves best.
 */
export interface NodeSelectorSpec {
  /**
   * @minItems 1
   * @maxItems 50
   */
  nodeSelectorTerms: [NodeSelectorTerm, ...NodeSelectorTerm[]];
}
/**
 * Required and preferred terms; for `podAntiAffinity` the same, away from the selected workloads.
 */
export interface PodAffinity {
  /**
   * @maxItems 50
   */
  preferredDuringSchedulingIgnoredDuringExecution?: WeightedPodAffinityTerm[];
  /**
   * @maxItems 50
   */
  requiredDuringSchedulingIgnoredDuringExecution?: PodAffinityTerm[];
}
/**
 * A preference for being near or far.
 */
export interface WeightedPodAffinityTerm {
  podAffinityTerm: PodAffinityTerm;
  weight: number;
}
/**
 * Other workloads that a replica wants near or far, and what near means (`topologyKey`).
 */
export interface PodAffinityTerm {
  labelSelector: LabelSelectorSpec;
  /**
   * Labels in which the other must equal this workload.
   *
   * @maxItems 50
   */
  matchLabelKeys?: string[];
  /**
   * @maxItems 50
   */
  namespaces?: string[];
  topologyKey: string;
}
/**
 * Selects workloads by their labels; an empty selector selects all.
 */
export interface LabelSelectorSpec {
  /**
   * @maxItems 100
   */
  matchExpressions?: LabelSelectorRequirement[];
  matchLabels?: {
    [k: string]: string;
  };
}
/**
 * One expression of a label selector.
 */
export interface LabelSelectorRequirement {
  key: string;
  operator: LabelSelectorOperator;
  /**
   * @maxItems 2000
   */
  values?: string[];
}
/**
 * One step of the ladder: from then on this capacity type is allowed too.
 */
export interface FallbackStepSpec {
  capacityType: CapacityType;
  /**
   * Wait this long before the next step joins; only the last may leave it out.
   */
  for?: string | null;
}
/**
 * What one replica needs. A limit without a request is a request, as in Kubernetes.
 */
export interface ResourceRequests {
  limits?: {
    [k: string]: string | number;
  };
  requests?: {
    [k: string]: string | number;
  };
}
/**
 * How many replicas an update may have too many or too few, as in a Deployment.
 */
export interface RollingUpdateSpec {
  /**
   * Beyond those wanted; a percentage is rounded up.
   */
  maxSurge?: string;
  /**
   * Of those wanted; a percentage is rounded down. Not both 0.
   */
  maxUnavailable?: string;
}
/**
 * What becomes of replicas that run when the spec changes.
 */
export interface StrategySpec {
  rollingUpdate?: RollingUpdateSpec | null;
  /**
   * RollingUpdate: they are replaced, node by node; OnDelete: they stay until they leave.
   */
  type?: "RollingUpdate" | "OnDelete";
}
/**
 * A toleration.
 */
export interface TolerationSpec {
  effect?: TaintEffect | null;
  key?: string | null;
  operator?: TolerationOperator;
  /**
   * @deprecated
   * Ignored: tolerationSeconds has no effect: drains follow the Node Draining protocol.
   */
  tolerationSeconds?: {
    [k: string]: unknown;
  };
  value?: string;
}
/**
 * Spread replicas evenly over zones, hosts or capacity types.
 */
export interface TopologySpread {
  labelSelector: LabelSelectorSpec;
  /**
   * @maxItems 50
   */
  matchLabelKeys?: string[];
  maxSkew: number;
  minDomains?: number | null;
  nodeAffinityPolicy?: NodePolicy;
  nodeTaintsPolicy?: NodePolicy;
  topologyKey: string;
  whenUnsatisfiable: WhenUnsatisfiable;
}
/**
 * A workload.
 */
export interface WorkloadManifest {
  apiVersion: "reservoir/v1";
  kind: "Workload";
  metadata: WorkloadMetadata;
  spec: WorkloadSpec;
  /**
   * Set by the server; not read.
   */
  status?: {
    [k: string]: unknown;
  };
}
/**
 * Metadata of a workload. `generation` decides which of two messages is the later one.
 */
export interface WorkloadMetadata {
  annotations?: {
    [k: string]: string;
  };
  /**
   * Set by the server; not read.
   */
  creationTimestamp?: {
    [k: string]: unknown;
  };
  /**
   * Counts the changes; a message with a lower one is old.
   */
  generation?: number;
  labels?: {
    [k: string]: string;
  };
  name: string;
  namespace?: string;
  /**
   * Set by the server; not read.
   */
  resourceVersion?: {
    [k: string]: unknown;
  };
  /**
   * Set by the server; not read.
   */
  uid?: {
    [k: string]: unknown;
  };
}
/**
 * The wanted state of a workload.
 */
export interface WorkloadSpec {
  affinity?: Affinity;
  /**
   * How much notice it wants before a drain's deadline.
   */
  checkpointPeriod?: string | null;
  /**
   * How long it runs; it is not put where it would be drained earlier.
   */
  duration?: string | null;
  /**
   * Ladder of capacity types; without it all that the pools allow count at once.
   *
   * @maxItems 3
   */
  fallback?:
    | []
    | [FallbackStepSpec]
    | [FallbackStepSpec, FallbackStepSpec]
    | [FallbackStepSpec, FallbackStepSpec, FallbackStepSpec];
  /**
   * All replicas or none.
   */
  gang?: boolean;
  /**
   * All replicas of the gang in one value of this label.
   */
  gangTopologyKey?:
    | (
        | "topology.kubernetes.io/zone"
        | "topology.k8s.aws/zone-id"
        | "karpenter.k8s.aws/placement-group-id"
        | "topology.k8s.aws/network-node-layer-1"
        | "topology.k8s.aws/network-node-layer-2"
        | "topology.k8s.aws/network-node-layer-3"
        | "topology.k8s.aws/ultraserver-id"
      )
    | null;
  /**
   * Whether a replica starts only once the one that it follows has left its node, or has had to; true with a `checkpointPeriod`, unless said otherwise. Said to be true, a `duration` does not keep the work out of a reservation that ends earlier: it is drained then, and goes on elsewhere.
   */
  handover?: boolean | null;
  /**
   * USD an hour for all replicas together.
   */
  maxPricePerHour?: string | number | null;
  nodeSelector?: {
    [k: string]: string;
  };
  /**
   * Higher goes first.
   */
  priority?: number;
  replicas?: number;
  resources?: ResourceRequests;
  /**
   * What becomes of replicas that run when the spec changes; absent: they stay until they leave. Neither gangs nor work that is handed over can be replaced node by node.
   */
  strategy?: StrategySpec | null;
  /**
   * @maxItems 100
   */
  tolerations?: TolerationSpec[];
  /**
   * @maxItems 50
   */
  topologySpreadConstraints?: TopologySpread[];
}
/**
 * A workload is wanted, or wanted differently; the higher `metadata.generation` wins in any order of arrival.
 */
export interface SubmitMessage {
  action: "submit" | "update";
  /**
   * Version of the message format.
   */
  schemaVersion?: 1;
  workload: WorkloadManifest;
}
/**
 * Names a workload; the whole manifest may be given, of which only the metadata is read.
 */
export interface WorkloadReference {
  apiVersion?: "reservoir/v1";
  kind?: "Workload";
  metadata: WorkloadMetadata;
  /**
   * Not read.
   */
  spec?: {
    [k: string]: unknown;
  };
  /**
   * Set by the server; not read.
   */
  status?: {
    [k: string]: unknown;
  };
}
/**
 * A workload is no longer wanted: its replicas are drained, and submits of its generation or older are ignored.
 */
export interface WithdrawMessage {
  action: "withdraw";
  /**
   * Version of the message format.
   */
  schemaVersion?: 1;
  workload: WorkloadReference;
}
/**
 * The answer to `Node Draining`: replicas of the workload have left the node, ahead of the deadline.
 */
export interface ReleaseMessage {
  action: "release";
  /**
   * The nodeClaim of the Node Draining event.
   */
  nodeClaim: string;
  /**
   * How many have left; absent: all of them.
   */
  replicas?: number | null;
  /**
   * Version of the message format.
   */
  schemaVersion?: 1;
  workload: WorkloadReference;
}
/**
 * Names a workload. With a `spec`, the answer says whether that spec is the stored one.
 */
export interface WorkloadInQuestion {
  apiVersion?: "reservoir/v1";
  kind?: "Workload";
  metadata: WorkloadMetadata;
  /**
   * As it would be submitted; one that no submit could have is not compared.
   */
  spec?: {
    [k: string]: unknown;
  };
  /**
   * Set by the server; not read.
   */
  status?: {
    [k: string]: unknown;
  };
}
/**
 * A question about what is known of the workload. `Workload Described` answers on the bus; nothing changes.
 */
export interface DescribeMessage {
  action: "describe";
  /**
   * Repeated in the answer, which so tells that it is younger than the question.
   */
  requestId: string;
  /**
   * Version of the message format.
   */
  schemaVersion?: 1;
  workload: WorkloadInQuestion;
}
/**
 * The offering that was bought, or would have been.
 */
export interface OfferingDetail {
  capacityReservationId?: string | null;
  capacityType: CapacityType;
  instanceType: string;
  zone: string;
  zoneId: string;
}
/**
 * Replicas of a workload on a node.
 */
export interface PlacedWorkload {
  /**
   * The id of the demand message that the workload began with; every line of a log about it has it.
   */
  correlationId?: string | null;
  generation?: number | null;
  name: string;
  namespace: string;
  replicas: number;
}
/**
 * EC2 refused a launch, or ended the instance before it ran; the replicas are demand again.
 */
export interface LaunchFailed {
  /**
   * EC2's error code, or the state reason of the instance.
   */
  code: string;
  message: string;
  nodeClaims: string[];
  offering: OfferingDetail;
  /**
   * The offering is not tried before.
   */
  unavailableUntil?: string | null;
  /**
   * Version of this detail's form.
   */
  version: 1;
  workloads: PlacedWorkload[];
}
/**
 * A node with its name here and in EC2.
 */
export interface NodeDetail {
  capacityReservationId?: string | null;
  capacityType: CapacityType;
  instanceId?: string | null;
  instanceType: string;
  nodeClaim: string;
  nodeClass: string;
  nodePool: string;
  /**
   * Micro-USD an hour; 0 for reserved capacity, which is paid for anyway.
   */
  priceMicroUsdPerHour?: number | null;
  zone: string;
  zoneId: string;
}
/**
 * A node must go. Answer with `release` once the replicas have left; at the deadline it is terminated anyway.
 */
export interface NodeDraining {
  deadline: string;
  /**
   * The same in every repeat of this notification.
   */
  drainId: string;
  node: NodeDetail;
  notifiedAt: string;
  reason: DrainReason;
  /**
   * Version of this detail's form.
   */
  version: 1;
  workloads: PlacedWorkload[];
}
/**
 * EC2 has an instance for the claim.
 */
export interface NodeLaunched {
  launchedAt: string;
  node: NodeDetail;
  /**
   * Version of this detail's form.
   */
  version: 1;
  workloads: PlacedWorkload[];
}
/**
 * EC2 moved a node that ran on demand into a reserved unit, without a restart: its replicas run on.
 *
 * `Node Capacity Type Changed` is published about the same node. A node that moves in again later is published
 * again.
 */
export interface NodeMovedIntoReservation {
  node: NodeDetail;
  /**
   * What it cost on demand; micro-USD an hour.
   */
  previousPriceMicroUsdPerHour: number;
  /**
   * The reservation that the unit was split off for it from, and goes back to when it ends.
   */
  splitFrom?: string | null;
  /**
   * Version of this detail's form.
   */
  version: 1;
  /**
   * What runs on it, as before.
   */
  workloads: PlacedWorkload[];
}
/**
 * A node is gone. Replicas that were still on it are demand again unless they were withdrawn.
 */
export interface NodeTerminated {
  /**
   * What the workloads that it was last for are followed by, released or not.
   */
  correlationIds: string[];
  node: NodeDetail;
  reason: string;
  /**
   * Replicas that went back to demand.
   */
  returned: PlacedWorkload[];
  terminatedAt: string;
  /**
   * Version of this detail's form.
   */
  version: 1;
}
/**
 * Names a workload.
 */
export interface WorkloadRef {
  /**
   * The id of the demand message that the workload began with; every line of a log about it has it.
   */
  correlationId?: string | null;
  generation?: number | null;
  name: string;
  namespace: string;
}
/**
 * A replica's command ended with a failure; its node starts it again, after a pause that grows.
 */
export interface ReplicaFailed {
  /**
   * A negative one is the signal that ended it.
   */
  exitCode: number;
  /**
   * It has failed so often in a row that a person should look.
   */
  isCrashLoop: boolean;
  /**
   * The end of what it wrote; anybody's text, without control characters.
   */
  logTail: string;
  /**
   * How long the node waits before it starts it again.
   */
  nextStartInS: number;
  node: NodeDetail;
  /**
   * How often it was started again before, in a row.
   */
  restarts: number;
  /**
   * Version of this detail's form.
   */
  version: 1;
  workload: WorkloadRef;
}
/**
 * Replicas have done what they were for: they leave their node and are not demand again.
 */
export interface ReplicaFinished {
  /**
   * How many of the workload have finished in all.
   */
  finished: number;
  /**
   * The end of what they wrote; anybody's text, without control characters.
   */
  logTail: string;
  node: NodeDetail;
  /**
   * How many have finished now.
   */
  replicas: number;
  /**
   * Version of this detail's form.
   */
  version: 1;
  /**
   * How many the workload asks for.
   */
  wanted: number;
  workload: WorkloadRef;
}
/**
 * Replicas run on a node, by their own command's report.
 */
export interface ReplicaReady {
  node: NodeDetail;
  /**
   * How many have run on the node in all, those that have finished included.
   */
  replicas: number;
  /**
   * Version of this detail's form.
   */
  version: 1;
  workload: WorkloadRef;
}
/**
 * A reservation ends in 14, 7 or 1 days, or so soon that this is the first that is known of it.
 */
export interface ReservationEnding {
  capacityReservationId: string;
  /**
   * Which notice this is: 14, 7 or 1.
   */
  days: number;
  /**
   * When the nodes in a Capacity Block must go.
   */
  drainAt?: string | null;
  endAt: string;
  /**
   * For how long neither is there.
   */
  gapS?: number | null;
  instanceType: string;
  /**
   * Nodes of this deployment in it now.
   */
  nodeCount: number;
  /**
   * What was placed in it within the last 14 days, and how many replicas; absent: nobody could look. Demand like it would be without.
   */
  recentWorkloads?: PlacedWorkload[] | null;
  /**
   * The reservation that goes on where this one ends.
   */
  successor?: string | null;
  units: number;
  /**
   * Version of this detail's form.
   */
  version: 1;
  /**
   * What runs on these, and would be without it.
   */
  workloads: PlacedWorkload[];
  zone: string;
  zoneId: string;
}
/**
 * A message was applied: the generation that it brought is wanted from now on, or the replicas have left.
 */
export interface WorkloadAccepted {
  /**
   * `submit`, `update`, `withdraw` or `release`.
   */
  action: string;
  /**
   * SQS's id of the message, which its sender was given.
   */
  messageId: string;
  /**
   * Version of this detail's form.
   */
  version: 1;
  workload: WorkloadRef;
}
/**
 * A drain in progress.
 */
export interface DrainStatus {
  /**
   * Replicas of the workload that have not been released.
   */
  awaiting: number;
  deadline: string;
  drainId: string;
  notifiedAt: string;
  reason: DrainReason;
}
/**
 * A node with replicas of the workload; those on a draining one count as demand again, and so not here.
 */
export interface NodeStatus {
  capacityReservationId?: string | null;
  capacityType: CapacityType;
  drain?: DrainStatus | null;
  /**
   * Beside `replicas`: how many have their place here and must not start before those that they follow have left their nodes (`release`), or `heldUntil`.
   */
  held: number;
  heldUntil?: string | null;
  instanceId?: string | null;
  instanceType: string;
  launchedAt?: string | null;
  nodeClaim: string;
  nodeClass: string;
  nodePool: string;
  /**
   * NodeClaims whose nodes drain and still run replicas that these follow.
   */
  predecessors: string[];
  /**
   * Micro-USD an hour; 0 for reserved capacity, which is paid for anyway.
   */
  priceMicroUsdPerHour?: number | null;
  /**
   * How many of the replicas run, as far as the node has said.
   */
  ready: number;
  replicas: number;
  runningAt?: string | null;
  state: ClaimState;
  zone: string;
  zoneId: string;
}
/**
 * Replicas that wait, and why.
 */
export interface UnplacedDetail {
  /**
   * When the reason could change by itself.
   */
  earliestAt?: string | null;
  message: string;
  reason: ReasonCode;
  replicas: number;
}
/**
 * The answer to `describe`: the stored workload, and its nodes. Long lists come in several parts.
 */
export interface WorkloadDescribed {
  /**
   * Of what was submitted last, whatever its generation; equal content, equal digest.
   */
  contentDigest?: string | null;
  /**
   * Replicas that have done what they were for.
   */
  finished: number;
  /**
   * Whether the spec and metadata of the question are what is wanted, whatever the generation; absent if it had no spec, or none that could be submitted.
   */
  isStored?: boolean | null;
  /**
   * May lag by moments: as long as their replicas do not add up, ask again.
   */
  nodes: NodeStatus[];
  /**
   * Which of the parts this is, from 1.
   */
  part: number;
  partCount: number;
  /**
   * Replicas that have a place; the nodes may still be launching.
   */
  placed: number;
  /**
   * That of the question; all parts of an answer have it.
   */
  requestId: string;
  sentAt?: string | null;
  /**
   * Who sent the stored generation, as SQS knows them.
   */
  sentBy?: string | null;
  /**
   * Version of this detail's form.
   */
  version: 1;
  /**
   * As the last plan left them.
   */
  waiting: UnplacedDetail[];
  /**
   * Replicas.
   */
  wanted: number;
  withdrawn: boolean;
  workload: WorkloadRef;
}
/**
 * A message was understood and changes nothing. A message that is delivered twice may be accepted, then this.
 */
export interface WorkloadIgnored {
  /**
   * `submit`, `update`, `withdraw` or `release`.
   */
  action: string;
  /**
   * SQS's id of the message, which its sender was given.
   */
  messageId: string;
  reason: IgnoredReason;
  /**
   * What is stored instead; absent for a release.
   */
  storedGeneration?: number | null;
  /**
   * Version of this detail's form.
   */
  version: 1;
  workload: WorkloadRef;
}
/**
 * Interruptions have cost a workload more than spot saved it: its replicas are placed without spot until then.
 *
 * Where on-demand nodes cannot serve it, by its own ladder or by its pools, it stays on spot all the same.
 */
export interface WorkloadLeftSpot {
  reason: string;
  /**
   * How often it has left spot in a row; it rests from it longer each time.
   */
  times: number;
  until: string;
  /**
   * Version of this detail's form.
   */
  version: 1;
  workload: WorkloadRef;
}
/**
 * Replicas wait, and why.
 */
export interface WorkloadPending {
  /**
   * When the reason could change by itself.
   */
  earliestAt?: string | null;
  message: string;
  nearestOffering?: OfferingDetail | null;
  reason: ReasonCode;
  replicas: number;
  /**
   * Version of this detail's form.
   */
  version: 1;
  workload: WorkloadRef;
}
/**
 * A node and how many of the workload's replicas are on it.
 */
export interface NodePlacement {
  capacityReservationId?: string | null;
  capacityType: CapacityType;
  instanceId?: string | null;
  instanceType: string;
  nodeClaim: string;
  nodeClass: string;
  nodePool: string;
  /**
   * Micro-USD an hour; 0 for reserved capacity, which is paid for anyway.
   */
  priceMicroUsdPerHour?: number | null;
  replicas: number;
  zone: string;
  zoneId: string;
}
/**
 * Replicas got a place. The nodes may still be launching; `Node Launched` follows.
 */
export interface WorkloadPlaced {
  nodes: NodePlacement[];
  /**
   * How many were placed by this decision.
   */
  replicas: number;
  /**
   * Version of this detail's form.
   */
  version: 1;
  workload: WorkloadRef;
}
/**
 * One thing that is wrong with a message.
 */
export interface RejectedProblem {
  message: string;
  path: string;
  rule: string;
  suggestion?: string | null;
}
/**
 * A message was not understood and changes nothing; it lies in the dead-letter queue.
 */
export interface WorkloadRejected {
  messageId: string;
  problems: RejectedProblem[];
  /**
   * Version of this detail's form.
   */
  version: 1;
  /**
   * Absent when not even the name could be read.
   */
  workload?: WorkloadRef | null;
}
/** The detail of each fact that a subscription lets in. */
export interface Events {
  "Launch Failed": LaunchFailed;
  "Node Draining": NodeDraining;
  "Node Launched": NodeLaunched;
  "Node Moved Into Reservation": NodeMovedIntoReservation;
  "Node Terminated": NodeTerminated;
  "Replica Failed": ReplicaFailed;
  "Replica Finished": ReplicaFinished;
  "Replica Ready": ReplicaReady;
  "Reservation Ending": ReservationEnding;
  "Workload Accepted": WorkloadAccepted;
  "Workload Described": WorkloadDescribed;
  "Workload Ignored": WorkloadIgnored;
  "Workload Left Spot": WorkloadLeftSpot;
  "Workload Pending": WorkloadPending;
  "Workload Placed": WorkloadPlaced;
  "Workload Rejected": WorkloadRejected;
}
/** Fields that a fact must have, with their types in JavaScript. */
export const REQUIRED: { [T in keyof Events]: Record<string, string> } = {
  "Launch Failed": { nodeClaims: "object", offering: "object", code: "string", message: "string", workloads: "object" },
  "Node Draining": { drainId: "string", node: "object", reason: "string", notifiedAt: "string", deadline: "string", workloads: "object" },
  "Node Launched": { node: "object", launchedAt: "string", workloads: "object" },
  "Node Moved Into Reservation": { node: "object", previousPriceMicroUsdPerHour: "number", workloads: "object" },
  "Node Terminated": { node: "object", reason: "string", terminatedAt: "string" },
  "Replica Failed": { node: "object", workload: "object", exitCode: "number", restarts: "number", nextStartInS: "number", isCrashLoop: "boolean", logTail: "string" },
  "Replica Finished": { node: "object", workload: "object", replicas: "number", finished: "number", wanted: "number", logTail: "string" },
  "Replica Ready": { node: "object", workload: "object", replicas: "number" },
  "Reservation Ending": { capacityReservationId: "string", instanceType: "string", zone: "string", zoneId: "string", units: "number", endAt: "string", days: "number", nodeCount: "number", workloads: "object" },
  "Workload Accepted": { messageId: "string", action: "string", workload: "object" },
  "Workload Described": { requestId: "string", workload: "object" },
  "Workload Ignored": { messageId: "string", action: "string", workload: "object", reason: "string" },
  "Workload Left Spot": { workload: "object", until: "string", times: "number", reason: "string" },
  "Workload Pending": { workload: "object", replicas: "number", reason: "string", message: "string" },
  "Workload Placed": { workload: "object", replicas: "number", nodes: "object" },
  "Workload Rejected": { messageId: "string", problems: "object" },
};
