import type { Json, RequiredAction, Run, RunStatus, Usage, Wait } from './api.ts';
import type { RunErrorCode } from './baton-error.ts';

/** A call that waits for a person or a client. */
export type WaitingCall = Readonly<{
  id: string;
  kind: RequiredAction['kind'];
  toolName: string;
  args: Json;
  messageId: string;
  runId: string;
  sessionId: string;
  agent: string;
  /** Title of the session. */
  title: string | null;
  step: number;
  askedAt: string;
  /** Time until which the call can be answered; null: no limit. */
  expiresAt: string | null;
  /** The last message of the user that the session has taken up: at most 500 characters. */
  userWords: Readonly<{ text: string; at: string }> | null;
}>;

/** Only an empty page has no `nextCursor`. */
export type WaitingCallPage = Readonly<{ calls: readonly WaitingCall[]; nextCursor: string | null }>;

/** Failed runs with the same cause. */
export type ErrorGroup = Readonly<{
  /** Stays the same for the same cause. */
  fingerprint: string;
  code: RunErrorCode;
  provider: string | null;
  /** Model of the run's last answer; null: the run had none. */
  model: string | null;
  agent: string;
  /** The message without numbers, ids, addresses and quoted texts. */
  text: string;
  count: number;
  firstAt: string;
  lastAt: string;
  /** The hours with failures, in UTC. */
  hours: readonly Readonly<{ hour: string; count: number }>[];
}>;

type FailedRun = Readonly<{ runId: string; sessionId: string; at: string }>;
type Window = Readonly<{ since: string; complete: boolean }>;

/** `complete`: these are all failed runs since then. `newest`: at most five, or 100 if one group was asked for. */
export type ErrorGroups = Window &
  Readonly<{
    groups: readonly (ErrorGroup & Readonly<{ newest: readonly (FailedRun & Readonly<{ message: string }>)[] }>)[];
  }>;

export type AllErrorGroups = Window &
  Readonly<{
    groups: readonly (Omit<ErrorGroup, 'text'> &
      Readonly<{ tenants: number; newest: readonly (FailedRun & Readonly<{ tenant: string }>)[] }>)[];
  }>;

/** `day`: the day on which the runs were created, in UTC. */
export type UsageDimension = 'day' | 'agent' | 'model' | 'tenant';

/** A row has the dimensions that were asked for. */
export type UsageReport = Readonly<{
  /** Start of the window. It is later than asked for if the window has too many runs. */
  since: string;
  until: string;
  by: readonly UsageDimension[];
  complete: boolean;
  rows: readonly Readonly<{
    day?: string;
    agent?: string;
    model?: string | null;
    tenant?: string;
    runs: number;
    failedRuns: number;
    steps: number;
    usage: Usage;
    /** US dollars; null if the price of any call is unknown. */
    costUsd: number | null;
  }>[];
}>;

/** A run without its content. */
export type OperatorRun = Readonly<{
  id: string;
  sessionId: string;
  tenant: string;
  agent: string;
  kind: Run['kind'];
  status: RunStatus;
  reason: string | null;
  errorCode: RunErrorCode | null;
  steps: number;
  usage: Usage;
  costUsd: number | null;
  createdAt: string;
  startedAt: string | null;
  finishedAt: string | null;
  waitsFor: Wait | null;
}>;

type JobKind = 'step' | 'compaction' | 'prune' | 'delivery';

/** The workers with the runs that they have in hand, and the queues. */
export type Fleet = Readonly<{
  workers: readonly Readonly<{
    id: string;
    kinds: readonly JobKind[];
    /** Its version of the job protocol. */
    engine: number;
    isAlive: boolean;
    since: string;
    /** Its last sign of life. */
    seenAt: string;
    inHand: number;
    /** At most 20 of the runs in hand. */
    runs: readonly Readonly<{
      runId: string;
      sessionId: string;
      tenant: string;
      kind: Exclude<JobKind, 'delivery'> | null;
      step: number;
      status: RunStatus;
      leaseExpiresAt: string | null;
    }>[];
  }>[];
  /** Jobs by state; null if the queue cannot be reached. `due`: work that no worker has claimed. */
  queues: readonly Readonly<{
    kind: JobKind;
    waiting: number | null;
    delayed: number | null;
    active: number | null;
    failed: number | null;
    due: number;
    oldestDueAt: string | null;
  }>[];
}>;

/** `overflow`: so much may have changed that lists should be read again. It comes first on each connection. */
export type Activity =
  | Readonly<{ type: 'activity'; data: Readonly<{ sessions: readonly string[]; runs: readonly string[] }> }>
  | Readonly<{ type: 'overflow' }>;
