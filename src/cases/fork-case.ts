import type { Message } from '../client/client.ts';
import { BatonError } from '../domain/errors.ts';
import { addUsage, NO_USAGE, type Usage } from '../domain/usage.ts';
import { type Case, type CaseStep, stepsOf } from './case-file.ts';
import type { CaseService } from './case-service.ts';
import { playCase } from './play-case.ts';
import type { Fork } from './player.ts';
import { readCosts } from './record-session.ts';

/** The work of a case from one step to its end. */
type Work = Readonly<{
  model: string;
  steps: number;
  usage: Usage;
  /** US dollars; null: a price is unknown. */
  costUsd: number | null;
  calls: readonly string[];
  /** The last text of the model. */
  output: string;
  /** Status of the last run, or the message of its error. */
  end: string;
}>;

export type ForkResult = Readonly<{ name: string; from: number; recorded: Work; now: Work }>;

/**
 * Plays a case up to a step. From there on a model answers itself, and its work is compared with the recorded work.
 * @throws BatonError `invalid_request` for a step that the case does not have; `model_unavailable`
 */
export async function forkCase(service: CaseService, recorded: Case, fork: Fork): Promise<ForkResult> {
  const steps = stepsOf(recorded);
  if (fork.from > steps.length) {
    throw new BatonError(
      'invalid_request',
      `${recorded.name} has ${steps.length} steps, so none can be from ${fork.from} on`,
    );
  }
  const { sessionId, answers, end } = await playCase(service, recorded, fork);
  const later = answers.slice(fork.from - 1);
  const costs = await readCosts(service.client, runsOf(later));
  await service.client.sessions.cancel(sessionId);
  return {
    name: recorded.name,
    from: fork.from,
    recorded: workOf(steps.slice(fork.from - 1), recorded.end.status),
    now: workOf(
      later.map((answer) => toStep(answer, fork.model, costs.get(answer.id) ?? null)),
      end?.error?.message ?? end?.status ?? 'no run',
    ),
  };
}

const runsOf = (answers: readonly Message[]): string[] => [
  ...new Set(answers.flatMap(({ runId }) => (runId === null ? [] : [runId]))),
];

type Step = Pick<CaseStep, 'model' | 'costUsd' | 'usage'> & Readonly<{ parts: readonly AnyPart[] }>;
type AnyPart = Readonly<{ type: string; text?: string; toolName?: string }>;

const toStep = ({ model, usage, parts }: Message, requestedModel: string, costUsd: number | null): Step => ({
  model: model ?? requestedModel,
  usage: { ...(usage ?? NO_USAGE) },
  parts,
  costUsd,
});

function workOf(steps: readonly Step[], end: string): Work {
  const costs = steps.map(({ costUsd }) => costUsd);
  const textOf = ({ parts }: Step): string =>
    parts.flatMap(({ type, text = '' }) => (type === 'text' ? [text] : [])).join('');
  return {
    model: [...new Set(steps.map(({ model }) => model))].join(', '),
    steps: steps.length,
    usage: steps.reduce((sum, { usage }) => addUsage(sum, usage), NO_USAGE),
    costUsd: costs.reduce((sum, cost) => (sum === null || cost === null ? null : sum + cost), 0),
    calls: steps.flatMap(({ parts }) => parts.flatMap(({ toolName }) => (toolName === undefined ? [] : [toolName]))),
    output: steps.map(textOf).findLast((text) => text !== '') ?? '',
    end,
  };
}

/** The recorded work and the work of the fork side by side, as rows of a table. */
export function compareWork({ recorded, now }: Pick<ForkResult, 'recorded' | 'now'>): [string, string, string][] {
  const row = (name: string, tell: (work: Work) => string): [string, string, string] => [
    name,
    tell(recorded),
    tell(now),
  ];
  return [
    ['', 'recorded', 'now'],
    row('model', ({ model }) => model),
    row('steps', ({ steps }) => String(steps)),
    row('input tokens', ({ usage }) => String(usage.inputTokens)),
    row('output tokens', ({ usage }) => String(usage.outputTokens)),
    row('cost', ({ costUsd }) => (costUsd === null ? 'unknown' : `${costUsd.toFixed(4)} USD`)),
    row('calls', ({ calls }) => countCalls(calls)),
    row('end', ({ end }) => end),
    row('output', ({ output }) => output),
  ];
}

function countCalls(calls: readonly string[]): string {
  const counts = [...Map.groupBy(calls, (name) => name)].map(([name, same]) => `${name} ${same.length}`);
  return counts.length === 0 ? 'none' : counts.join(', ');
}
