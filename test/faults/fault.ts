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
  /** What is done, in a few words: for the table in the docs. */
  about: string;
  /** The backends that it says something about. Default: both. */
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
  /** What the agent has and does beside the suite's tools. */
  agent?: AgentTraits;
  /** Webhooks and schedules. */
  edges?: EdgeTraits;
  /** Runs that one message brings about, where those are many: so many fewer messages are sent. */
  runsPerMessage?: number;
  traffic?: Partial<TrafficOptions>;
  manners?: Partial<ModelManners>;
  /**
   * Nothing is lost, so nothing may have to be recovered: a run that is taken back or whose job is added again counts
   * against the product.
   */
  isHarmless?: boolean;
  /**
   * Nobody is killed, and whoever loses Postgres gets it back within seconds: a worker that is taken for dead although
   * no process has ended counts against the product. Not so where a worker is cut off: it cannot say that it lives, and
   * that others take over is what is promised.
   */
  killsNobody?: boolean;
  /** Nothing is done at all, so nothing has to be counted: every other row says what it did, or has proven nothing. */
  strikesNothing?: boolean;
  /** What a new worker is told, and what is done to its taps. */
  environmentOf?: (random: Random, strikes: Strikes) => Readonly<Record<string, string>>;
  onMember?: (member: Member, random: Random, strikes: Strikes) => void;
  /**
   * Does harm until the signal aborts, counts it in the world's strikes, and puts everything in
   * order before it resolves.
   */
  strike?: (world: World, random: Random, signal: AbortSignal) => Promise<void>;
  /**
   * What only shows in the end: how often it struck where it was to strike, by the name of the place. A row that has
   * missed one says nothing.
   */
  hits?: (
    world: World,
    traffic: Pick<Traffic, 'waits' | 'messages' | 'edits' | 'cancels' | 'atEnds'>,
    edges: Edges,
  ) => Readonly<Record<string, number>>;
}>;
