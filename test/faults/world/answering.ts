import type { EventEmitter } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import type { Random } from '../../support/random.ts';
import type { GivenAnswer } from '../check/answers.ts';
import type { Api, CallAnswer, RequiredAction, RunBody } from './api.ts';

/** The wait of a run for people, until the last of its calls was answered. Times are by this process's clock. */
export type Wait = Readonly<{ runId: string; sinceMs: number; untilMs: number }>;

/** People who answer the calls for which runs wait. */
export type Answering = Readonly<{
  answers: readonly GivenAnswer[];
  waits: readonly Wait[];
  /** Resolves when every call that the run waits for is answered. Several callers share the answers under way. */
  onWait: (run: RunBody) => Promise<void>;
}>;

/** People do not answer at once, but within this time. */
const ANSWERED_WITHIN_MS = 250;
const DENIALS = 0.25;

/** @param people emits `asked` when a run waits, and `answered`, with the run's id, when its last call is answered */
export function createAnswering(api: Api, people: EventEmitter, random: Random, signal: AbortSignal): Answering {
  const answers: GivenAnswer[] = [];
  const waits: Wait[] = [];
  const underWay = new Map<string, Promise<void>>();
  const answer = async (runId: string, { id, kind, args: { token } }: RequiredAction, sinceMs: number) => {
    const chance = random.fork(token);
    await delay(chance.between(0, ANSWERED_WITHIN_MS), undefined, { signal });
    const said = decide(kind, token, chance);
    const open = await api.answer(runId, id, said);
    answers.push({ runId, token, answer: 'output' in said ? 'output' : said.decision });
    if (open > 0) return;
    waits.push({ runId, sinceMs, untilMs: performance.now() });
    people.emit('answered', runId);
  };
  return {
    answers,
    waits,
    async onWait({ id: runId, requiredActions }) {
      const sinceMs = performance.now();
      people.emit('asked');
      await Promise.all(
        requiredActions.map((action) => {
          const answering = underWay.get(action.id) ?? answer(runId, action, sinceMs);
          underWay.set(action.id, answering);
          return answering;
        }),
      );
    },
  };
}

function decide(kind: RequiredAction['kind'], token: string, chance: Random): CallAnswer {
  if (chance.chance(DENIALS)) return { decision: 'deny' };
  return kind === 'output' ? { output: `done ${token}` } : { decision: 'approve' };
}
