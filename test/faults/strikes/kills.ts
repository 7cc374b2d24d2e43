import type { Fault } from '../fault.ts';
import { LONG_LEASES } from '../leases.ts';
import { changesOf } from '../world/edits.ts';
import type { Line } from '../world/fleet.ts';
import { KILLS_OF_WORKERS } from '../world/strikes.ts';
import { killAt, type Moment } from './kill-at.ts';
import { IN_BACKGROUND, readAgain } from './provider.ts';
import { repeatedly } from './repeatedly.ts';

/** A moment of a step, recognised by the data that a worker sends to Postgres, the queue or the provider. */
type StepMoment = Readonly<{ name: string; about: string; line: (backend: string) => Line }> &
  Pick<Moment, 'marker' | 'on' | 'laterMs'>;

const viaPostgres = (): Line => 'postgres';
const viaProvider = (): Line => 'provider';

const MID_STREAM: StepMoment = {
  name: 'mid-stream',
  about: 'the model is answering',
  line: viaProvider,
  marker: /POST \/v1\//,
  on: 'reply',
  laterMs: 40,
};

const MOMENTS: readonly StepMoment[] = [
  {
    name: 'after-claim',
    about: 'the claim is committed, its answer not read',
    line: viaPostgres,
    marker: /baton_claim_run/,
    on: 'reply',
  },
  {
    name: 'before-model',
    about: 'the request to the model is being sent',
    line: viaProvider,
    marker: /POST \/v1\//,
    on: 'request',
  },
  MID_STREAM,
  {
    name: 'before-response',
    about: 'the answer is whole, not yet durable',
    line: viaPostgres,
    marker: /baton_write_response|"kind":"response"/,
    on: 'request',
  },
  {
    name: 'after-response',
    about: 'the answer is durable, and that its calls run; no tool has started',
    line: viaPostgres,
    marker: /baton_write_response|"kind":"response"/,
    on: 'reply',
  },
  {
    name: 'before-tool',
    about: '`running` is durable of a call that did not start with its response, its tool has not started',
    line: viaPostgres,
    marker: /baton_move_calls[\s\S]*"to":"running"/,
    on: 'reply',
  },
  {
    name: 'before-result',
    about: 'the tool is done, its result not durable',
    line: viaPostgres,
    marker: /baton_move_calls[\s\S]*"to":"completed"/,
    on: 'request',
  },
  {
    name: 'before-commit',
    about: 'the step is done, its end not committed',
    line: viaPostgres,
    marker: /baton_finish_step|"kind":"finish"/,
    on: 'request',
  },
  {
    name: 'after-commit',
    about: 'the end is committed, the next job not added',
    line: viaPostgres,
    marker: /baton_finish_step|"kind":"finish"/,
    on: 'reply',
  },
  {
    name: 'after-carry',
    about:
      'the next step has begun with the end of the last one, its worker does not know yet and its job is not added',
    line: viaPostgres,
    marker: /"carryOn"/,
    on: 'reply',
  },
  {
    name: 'after-enqueue',
    about: 'the next job is added, the own one not acknowledged',
    line: (backend) => (backend === 'redis' ? 'redis' : 'postgres'),
    marker: /-step-\d+-\d+/,
    on: 'reply',
  },
];

/**
 * Range of the occurrence of its moment at which a worker dies. It is low enough that many workers die, and high enough
 * that not all are starting most of the time: the row would then measure how fast processes start.
 */
const DIES_AT: Moment['nth'] = [3, 45];
/** The range while no worker has died yet: a short row may offer no later occurrence. */
const FIRST_DIES_AT: Moment['nth'] = [1, 5];

const RUN_ID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/;

/**
 * The rows measure how soon other workers take over. The model answers at once, so twenty sessions would keep both
 * cores of a small machine busy, and the rows would measure the wait for a processor.
 */
export const SESSIONS_OF_KILLS = 10;

/** Every worker dies at some occurrence of the moment, and so does each worker that replaces it. */
function killEverybodyAt({ name, about, line, ...moment }: StepMoment): Fault {
  const lines = [...new Set([line('redis'), line('postgres')])];
  return {
    name: `kill-${name}`,
    about: `SIGKILL: ${about}`,
    environment: LONG_LEASES,
    traffic: { sessions: SESSIONS_OF_KILLS },
    tapped: lines,
    onMember(member, random, strikes) {
      const tapped = lines.find((one) => member.taps[one] !== undefined);
      if (tapped === undefined) return;
      const runIn = (text: string): string | undefined => RUN_ID.exec(text)?.[0];
      killAt(member, random, strikes, { ...moment, line: tapped, nth: DIES_AT, firstNth: FIRST_DIES_AT, runIn });
    },
  };
}

export const KILLS: readonly Fault[] = [
  {
    name: 'kill-random',
    about: 'SIGKILL at random moments, while people also change and take back what waits',
    environment: LONG_LEASES,
    traffic: {
      sessions: SESSIONS_OF_KILLS,
      editChance: 0.1,
      moveChance: 0.05,
      removeChance: 0.1,
      rejectChance: 0.05,
      repeatChance: 0.1,
    },
    hits: (_world, { messages, edits }) => ({ 'second thoughts': changesOf(messages, edits) }),
    strike: (world, random, signal) =>
      repeatedly({ random, signal, pauseMs: [600, 3_000] }, () => {
        world.fleet.anyone(random)?.kill();
      }),
  },
  ...MOMENTS.map(killEverybodyAt),
  {
    ...killEverybodyAt({ ...MID_STREAM, laterMs: 150 }),
    ...IN_BACKGROUND,
    name: 'kill-mid-stream-background',
    about: 'SIGKILL: the model is answering, in the background',
    hits: readAgain,
  },
  {
    name: 'kill-after-effect',
    about: 'SIGKILL: a tool has taken effect and has not told its result',
    environment: LONG_LEASES,
    traffic: { sessions: SESSIONS_OF_KILLS },
    environmentOf(random, strikes) {
      const diesAt = strikes.of(KILLS_OF_WORKERS) === 0 ? FIRST_DIES_AT : DIES_AT;
      return { BATON_TEST_STOP_AFTER_EFFECTS: String(random.between(...diesAt)) };
    },
  },
  {
    name: 'kill-api',
    about: 'SIGKILL of the API, again and again; clients send again what was not answered',
    strike: (world, random, signal) =>
      repeatedly({ random, signal, pauseMs: [300, 1_500] }, () => {
        if (world.api.child().kill('SIGKILL')) world.strikes.add('kills of the API');
      }),
  },
];
