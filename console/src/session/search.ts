/** The parts of an inspected step. */
export const TABS = ['request', 'response', 'tools', 'usage', 'error', 'trace'] as const;
export type Tab = (typeof TABS)[number];

/** Which part a narrow screen shows. */
export const PANES = ['talk', 'steps', 'details'] as const;
export type Pane = (typeof PANES)[number];

/**
 * What is chosen on the page of a session, as it stands in the address. Without `run` the step is of
 * the newest. `message` names one of several tries at an attempt. `at`: the number of a message to which the transcript
 * opens.
 */
export type SessionSearch = Readonly<{
  run?: string;
  step?: number;
  attempt?: number;
  message?: string;
  at?: number;
  tab?: Tab;
  pane?: Pane;
}>;

const positive = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isSafeInteger(value) && value > 0 ? value : undefined;

/** Reads the address. What does not belong there is dropped. */
export function readSessionSearch(search: Record<string, unknown>): SessionSearch {
  const { run, message } = search;
  const [step, attempt, at] = [positive(search['step']), positive(search['attempt']), positive(search['at'])];
  const tab = TABS.find((one) => one === search['tab']);
  const pane = PANES.find((one) => one === search['pane']);
  return {
    ...(typeof run === 'string' && /^run_[0-9a-f]{32}$/.test(run) && { run }),
    ...(step !== undefined && { step }),
    ...(attempt !== undefined && { attempt }),
    ...(typeof message === 'string' && /^msg_[0-9a-f]{32}$/.test(message) && { message }),
    ...(at !== undefined && { at }),
    ...(tab !== undefined && { tab }),
    ...(pane !== undefined && { pane }),
  };
}

/** Where a session of a search opens: at the message with the words. */
export const atHit = (hit: Readonly<{ seq: number }> | null): SessionSearch => (hit === null ? {} : { at: hit.seq });
