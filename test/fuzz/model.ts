import { sql } from 'kysely';
import type { Fault } from '../../simulator/fault.ts';
import type { Reply } from '../../simulator/reply.ts';
import type { SimulatedRequest } from '../../simulator/request.ts';
import type { Random } from '../support/random.ts';
import type { FuzzService, Player } from './service.ts';

export type FuzzModel = Readonly<{
  /** By chance lets a held answer go on, or makes a later request to a model fail. */
  stir: () => void;
  /** Lets all held answers go on. From then on no answer is held. */
  release: () => void;
  /** A line for each time that a model was shown the secret of another tenant. */
  wrong: readonly string[];
}>;

/** Most answers that are held at once, so that the other sessions go on. */
const MAX_HELD = 6;

const FAULTS: readonly Fault[] = [
  { status: 401 },
  { kind: 'server-error' },
  { kind: 'cut', afterChunks: 1 },
  { kind: 'error-in-stream', afterChunks: 1, code: 'server_error', message: 'broken' },
  { kind: 'context-overflow' },
];

/** Words that only the model's answers have: no request contains them. */
export const MODEL_SAYS = 'is what the model knows';

/**
 * A model that tells each session its tenant's secret, in pieces, in thoughts and in calls. Some of its answers are
 * held for a while, so that messages meet a session at work.
 */
export function createModel({ service, profile }: FuzzService, players: readonly Player[], random: Random): FuzzModel {
  const { simulator, deps } = service;
  const held: string[] = [];
  const wrong: string[] = [];
  let gates = 0;
  let mayHold = true;

  const ownerOf = async ({ cacheKey }: SimulatedRequest): Promise<Player | undefined> => {
    const { rows } = await sql<{ tenant: string }>`
      select tenant_id as tenant from sessions where id::text = ${cacheKey}`.execute(deps.db);
    return players.find(({ name }) => name === rows[0]?.tenant);
  };
  const answer = async (request: SimulatedRequest): Promise<Reply> => {
    const owner = await ownerOf(request);
    // The session was deleted meanwhile. A client that asks for it is told so.
    if (owner === undefined) return { text: 'Whose are you?' };
    const shown = JSON.stringify([request.system, request.messages, request.tools]);
    wrong.push(
      ...players.flatMap(({ name, word }) =>
        name !== owner.name && shown.includes(word)
          ? [`the model of ${owner.name} was shown the secret of ${name}`]
          : [],
      ),
    );
    return replyFor(request, owner.word);
  };
  const replyFor = ({ messages, tools }: SimulatedRequest, word: string): Reply => {
    const text = `${word} ${MODEL_SAYS}.`;
    const reply = { text, ...(random.chance(0.3) && { reasoning: `Of ${word}, I think.` }), chunkChars: 9 };
    const offered = tools.map(({ name }) => name).filter((name) => ['look', 'enter', 'ask'].includes(name));
    const mayCall = messages.at(-1)?.role === 'user' && offered.length > 0;
    if (mayCall && random.chance(0.4)) {
      const names = random.chance(0.3) ? offered : [random.pick(offered)];
      return { ...reply, toolCalls: names.map((name) => ({ name, input: { place: word } })) };
    }
    if (!mayHold || held.length >= MAX_HELD || !random.chance(0.25)) return reply;
    const gate = `held ${gates++}`;
    held.push(gate);
    return { ...reply, gates: { afterChunks: { count: 2, gate } } };
  };
  for (const model of ['coder', 'clerk']) simulator.script(model, answer);
  simulator.setProfile('coder', profile);
  const releaseOne = (): void => {
    const gate = held.shift();
    if (gate !== undefined) simulator.gate(gate).release();
  };
  return {
    wrong,
    stir() {
      if (random.chance(0.15)) releaseOne();
      if (random.chance(0.02)) simulator.fault(random.pick(['coder', 'clerk']), random.pick(FAULTS));
    },
    release() {
      mayHold = false;
      while (held.length > 0) releaseOne();
    },
  };
}
