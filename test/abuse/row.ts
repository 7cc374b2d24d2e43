import type { Attack } from './attack/attack.ts';
import type { RequestKind } from './neighbour/requests.ts';

/** A row is left out, with the reason, on a machine that lacks one of its needs. */
export type Need = 'redis' | 'mount';

/** One kind of abuse by a tenant, an agent or the machine, while the service serves another tenant. */
export type Row = Readonly<{
  name: string;
  /** The attack in a few words, for the table in docs/security.md. */
  about: string;
  needs?: readonly Need[];
  /** Makes the files that the row needs in its folder, and returns the settings and agents of the product. */
  setUp?: (folder: string) => SetUp | Promise<SetUp>;
  /** Processes that work on jobs. Default: 1. */
  workers?: number;
  /**
   * `npm start` in an empty folder: one process on an embedded Postgres, without keys and settings. Default: an API
   * process and workers on the suite's Postgres and Redis, with keys for three tenants.
   */
  isNewcomer?: boolean;
  /** Postgres has a small disk of its own. */
  hasSmallDisk?: boolean;
  /**
   * Kinds of the neighbour's requests that must stay fast (default: all). The others may be refused or wait during the
   * attack, but the service must not lose an accepted one.
   */
  spares?: readonly RequestKind[];
  /**
   * The attack runs at normal priority, because a race without processor time is never won. Default: the lowest
   * priority.
   */
  isRace?: boolean;
  attack: Attack;
}>;

type SetUp = Readonly<{
  /** Settings of the product that differ from the suite's. */
  settings?: Readonly<Record<string, string>>;
  /** Agents beside `attacker` and `neighbour`, by name. */
  agents?: Readonly<Record<string, AgentFile>>;
}>;

/** The content of an agent's file but for its name. */
export type AgentFile = Readonly<{ model: string; [key: string]: unknown }>;
