import type { EventEmitter } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import type { Random } from '../../support/random.ts';
import type { GivenAnswer } from '../check/answers.ts';
import type { Api, CallAnswer, RequiredAction, RunBody } from './api.ts';

/** A run that waited for somebody, until the last of its calls was answered. By this process's clock. */
export type Wait = Readonly<{ runId: string; sinceMs: number; untilMs: number }>;

/** People who answer what runs ask them. */
export type Answering = Readonly<{
  answers: readonly GivenAnswer[];
  waits: readonly Wait[];
  /** Resolves when every call that the run waits for is answered, whoever else was told of it. */
  onWait: (run: RunBody) => Promise<void>;
}>;

/** Nobody answers at once. */
const ANSWERED_WITHIN_MS = 250;
const DENIALS = 0.25;

/** @param people told `asked` when a run begins to wait, `answered`, with its id, when nothing more is asked of it */
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
