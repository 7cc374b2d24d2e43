import { rawId, type Snapshot, type StoredPart } from './snapshot.ts';

/** A person's answer to a call that waited, as the product accepted it. */
export type GivenAnswer = Readonly<{ runId: string; token: string; answer: 'approve' | 'deny' | 'output' }>;

/**
 * Calls whose outcome differs from their answer: approved calls without an outcome of their own, denied calls that ran,
 * and calls with a given output that are not completed. Also calls that ran without an answer, and calls without an
 * answer in a run that was not cancelled.
 * @param waits names of the tools whose calls wait for people
 */
export function checkAnswers(
  { messages, effects, runs }: Snapshot,
  answers: readonly GivenAnswer[],
  waits: readonly string[],
): string[] {
  const given = new Map(answers.map((answer) => [answer.token, answer]));
  const happened = new Set(effects.map(({ token }) => token));
  const cancelled = new Set(runs.filter(({ status }) => status === 'cancelled').map(({ id }) => id));
  const calls = messages.flatMap(({ runId, superseded, parts }) =>
    superseded ? [] : parts.filter(({ content }) => isWaiting(content, waits)).map((part) => ({ ...part, runId })),
  );
  const tokens = new Set(calls.map(({ content }) => content.input?.token ?? ''));
  const problems = calls.flatMap(({ content, state, runId }) => {
    const token = content.input?.token ?? '';
    const said = given.get(token);
    if (said !== undefined && runId !== rawId(said.runId)) return [`${token} is of another run`];
    const problem =
      said === undefined
        ? unasked(state, happened.has(token), cancelled.has(runId ?? ''))
        : unlike(said.answer, state, String(content.output?.value ?? ''), happened.has(token));
    return problem === null ? [] : [`${token}: ${problem}`];
  });
  return [
    ...problems,
    ...[...given.keys()].filter((token) => !tokens.has(token)).map((token) => `${token} is nowhere`),
  ];
}

const isWaiting = ({ type, toolName = '' }: StoredPart, waits: readonly string[]): boolean =>
  type === 'tool' && waits.includes(toolName);

function unlike(answer: GivenAnswer['answer'], state: string | null, value: string, happened: boolean): string | null {
  if (answer === 'deny') return state === 'denied' && !happened ? null : `denied, and ${state}`;
  if (answer === 'output')
    return state === 'completed' && !happened ? null : `its output was given, and it is ${state}`;
  // `checkTools` judges the returned value. The outcome is unknown if a worker has died in the middle of the call.
  const isUnknown = state === 'error' && /unknown/.test(value);
  return isUnknown || (state === 'completed' && happened) ? null : `approved, and ${state}`;
}

function unasked(state: string | null, happened: boolean, isCancelled: boolean): string | null {
  if (happened) return 'it ran and nobody had approved it';
  return state === 'completed' || !isCancelled ? `nobody was asked, and it is ${state}` : null;
}
