/** The service under attack, and the means of the attack. */
export type Target = Readonly<{
  url: string;
  /** The attacker's headers. */
  headers: Readonly<Record<string, string>>;
  /** Headers of a second tenant, who attacks together with the first. */
  accomplice: Readonly<Record<string, string>>;
  databaseUrl: string;
  redisUrl: string | null;
  simulatorUrl: string;
  /** The root of the workspace tools. */
  workspace: string;
  /** Outside of the workspace, for this row alone. */
  folder: string;
  /** On the small disk; null if the row has none. */
  diskFolder: string | null;
  seed: string;
  /** The attack's minimum duration in milliseconds: as long as the neighbour's requests are measured. */
  lastsMs: number;
}>;

/** A message that the API has taken from the attacker. */
export type AcceptedMessage = Readonly<{ messageId: string; runId: string; token: string }>;

/** The record of an attack. */
export type Outcome = Readonly<{
  /** Counts by name. An attack without any proves nothing. */
  done: Readonly<Record<string, number>>;
  accepted: readonly AcceptedMessage[];
  /** Events that must be impossible, in words. */
  breaches: readonly string[];
}>;

/** Runs in a process of its own. */
export type Attack = (target: Target) => Promise<Outcome>;
