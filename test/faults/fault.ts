import type { Random } from '../support/random.ts';
import type { Edges } from './check/deliveries.ts';
import type { AgentTraits } from './world/agent.ts';
import type { EdgeTraits } from './world/edges.ts';
import type { Line, Member } from './world/fleet.ts';
import type { ModelManners } from './world/model.ts';
import type { Strikes } from './world/strikes.ts';
import type { Traffic, TrafficOptions } from './world/traffic.ts';
import type { World } from './world/world.ts';

export type Backend = 'redis' | 'postgres';

/** One kind of harm. */
export type Fault = Readonly<{
  name: string;
  /** The harm in a few words, for the table in the docs. */
  about: string;
  /** The backends on which the fault means something. Default: both. */
  backends?: readonly Backend[];
  workers?: number;
  /** Traffic of each worker that passes through a tap of its own. */
  tapped?: readonly Line[];
  /** Settings of the workers that differ from the suite's. */
  environment?: Readonly<Record<string, string>>;
  /** Entry points of the versions that run side by side. */
  versions?: (world: Pick<World, 'folder'>) => Promise<readonly string[]>;
  /**
   * Steps that the agent's runs may take; a run that has taken them gives a final answer and ends. Default: any number.
   */
  maxSteps?: number;
  /** The agent's traits beside the suite's tools. */
  agent?: AgentTraits;
  /** Webhooks and schedules. */
  edges?: EdgeTraits;
  /** Runs that one message brings about, where there are many: the traffic sends that many times fewer messages. */
  runsPerMessage?: number;
  /** With fewer runs the traffic is over before the harm. */
  fewestRuns?: number;
  traffic?: Partial<TrafficOptions>;
  manners?: Partial<ModelManners>;
  /**
   * The harm loses nothing, so the product has nothing to recover: a run that is taken back, or whose job is added
   * again, counts against it.
   */
  isHarmless?: boolean;
  /**
   * No worker is killed, and Postgres is back within seconds: a worker that is taken for dead although no process has
   * ended counts against the product. A fault that cuts a worker off must not set this: the worker cannot say that it
   * lives, and the product promises that others take over.
   */
  killsNobody?: boolean;
  /** The row does no harm, so it counts none. Every other row must count its strikes, or it has proven nothing. */
  strikesNothing?: boolean;
  /** `environmentOf`: further environment of a new worker. `onMember`: arms the taps of a new worker. */
  environmentOf?: (random: Random, strikes: Strikes) => Readonly<Record<string, string>>;
  /** `onStart`: harms the taps of a worker that is about to be started. */
  onStart?: (taps: Member['taps'], random: Random, strikes: Strikes) => void;
  /** Every process serves whether it is ready, and must be so once the harm is over. */
  endsReady?: boolean;
  onMember?: (member: Member, random: Random, strikes: Strikes) => void;
  /**
   * Does harm until the signal aborts, counts it in the world's strikes, and puts everything in
   * order before it resolves.
   */
  strike?: (world: World, random: Random, signal: AbortSignal) => Promise<void>;
  /**
   * Counts that are only known at the end: the strikes at each place, by the name of the place. A row with a count of 0
   * has missed that place and proves nothing.
   */
  hits?: (
    world: World,
    traffic: Pick<Traffic, 'waits' | 'messages' | 'edits' | 'cancels' | 'atEnds'>,
    edges: Edges,
  ) => Readonly<Record<string, number>>;
}>;
