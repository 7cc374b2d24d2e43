/** The service under attack, and the means of the attack. */
export type Target = Readonly<{
  url: string;
  /** Of the attacker's tenant. */
  headers: Readonly<Record<string, string>>;
  /** Of a tenant that attacks with it. */
  accomplice: Readonly<Record<string, string>>;
  databaseUrl: string;
  redisUrl: string | null;
  simulatorUrl: string;
  /** The root of the workspace tools. */
  workspace: string;
  /** Belongs to the row and lies outside of the workspace. */
  folder: string;
  /** Of the small disk; null where there is none. */
  diskFolder: string | null;
  seed: string;
  /** How long to attack at least, in milliseconds: as long as the neighbour's requests are measured. */
  lastsMs: number;
}>;

/** A message that the API has taken from the attacker. */
export type AcceptedMessage = Readonly<{ messageId: string; runId: string; token: string }>;

/** The record of an attack. */
export type Outcome = Readonly<{
  /** Counts by name. A row without any proves nothing. */
  done: Readonly<Record<string, number>>;
  accepted: readonly AcceptedMessage[];
  /** Things that happened and must be impossible, in words. */
  breaches: readonly string[];
}>;

/** Runs in a process of its own. */
export type Attack = (target: Target) => Promise<Outcome>;
