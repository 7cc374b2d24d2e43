import type { Snapshot, StoredMessage } from './snapshot.ts';

/**
 * What is wrong with how the runs of an agent ended that may take so many steps and gives a final answer then. One that
 * has taken them all without an answer is incomplete, for that reason, and its last message is its one final answer:
 * whole, without a call. No other run has such an answer, or more steps.
 * @param final words of a final answer, and of no other
 */
export function checkLimits({ runs, messages }: Snapshot, maxSteps: number, final: string): string[] {
  const byRun = Map.groupBy(
    messages.filter(({ role, superseded }) => role === 'assistant' && !superseded),
    ({ runId }) => runId,
  );
  const problems = runs.flatMap(({ id, status, reason, kind }) => {
    const answers = kind === 'task' ? (byRun.get(id) ?? []) : [];
    const finals = answers.filter((answer) => isFinal(answer, final));
    const wrong = status === 'incomplete' ? wrongEnd(answers, finals, maxSteps) : unasked(answers, finals, maxSteps);
    const wrongReason = status === 'incomplete' && reason !== 'max_steps' ? [`incomplete for ${reason}`] : [];
    return [...wrong, ...wrongReason].map((what) => `run ${id}: ${what}`);
  });
  return runs.some(({ status }) => status === 'incomplete') ? problems : [...problems, 'no run has reached its limit'];
}

function wrongEnd(answers: readonly StoredMessage[], finals: readonly StoredMessage[], maxSteps: number): string[] {
  const last = answers.at(-1);
  if (last === undefined || finals.length !== 1 || finals[0] !== last) return [`${finals.length} final answers`];
  const hasCalls = last.parts.some(({ content }) => content.type === 'tool');
  return [
    ...(answers.length === maxSteps + 1 ? [] : [`${answers.length - 1} of ${maxSteps} steps before its final answer`]),
    ...(last.finishReason === 'stop' && !hasCalls ? [] : [`a final answer that ended with ${last.finishReason}`]),
  ];
}

function unasked(answers: readonly StoredMessage[], finals: readonly StoredMessage[], maxSteps: number): string[] {
  return [
    ...(finals.length === 0 ? [] : ['a final answer of a run that was not at its limit']),
    ...(answers.length <= maxSteps ? [] : [`${answers.length} steps of ${maxSteps}`]),
  ];
}

function isFinal({ parts }: StoredMessage, final: string): boolean {
  return parts.some(({ content }) => content.text?.includes(final) === true);
}
