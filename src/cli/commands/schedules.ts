import type { BatonClient, NewSchedule, Schedule, ScheduleFire } from '../../client/client.ts';
import { EXIT } from '../exit-codes.ts';
import { oneOf, REMOTE_USAGE, readRemote, takeArguments, writeJson, writeLine } from '../remote.ts';
import { oneLine } from '../terminal/words.ts';

const ACTIONS = ['list', 'create', 'put', 'pause', 'resume', 'run', 'next', 'fires', 'delete'] as const;
type Action = (typeof ACTIONS)[number];
const SESSIONS = ['new', 'same'] as const;
const OVERLAPS = ['skip', 'queue', 'replace'] as const;
const CATCHUPS = ['none', 'last'] as const;

export const usage = `baton schedules [options] [list]
baton schedules [options] create AGENT "0 9 * * 1-5" "message"
baton schedules [options] put KEY AGENT "0 9 * * 1-5" "message"
baton schedules [options] pause|resume|run|next|fires|delete SCHEDULE

Sends messages to agents by the clock: minute, hour, day, month, weekday. "put" creates or changes the schedule of a key;
elsewhere key:KEY stands for its id. "next" lists the next ten fires, "fires" lists past fires and their results.

  --timezone ZONE   time zone of IANA, such as Europe/Berlin (default: UTC)
  --session WHAT    ${SESSIONS.join(' or ')}: one session for each fire, or one for all (default: new)
  --overlap WHAT    fires that are due while the last run is active: ${OVERLAPS.join(', ')} (default: skip)
  --catchup WHAT    fires that were due while no worker ran: ${CATCHUPS.join(', ')} (default: none)
${REMOTE_USAGE}`;

type Options = Pick<NewSchedule, 'timezone' | 'session' | 'overlap' | 'catchup'>;
type Outcome = Readonly<{ value: unknown; lines: readonly string[] }>;

export async function run(args: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  const text = { type: 'string' } as const;
  const { positionals, values, client, isJson } = readRemote(args, environment, {
    timezone: text,
    session: text,
    overlap: text,
    catchup: text,
  });
  const { timezone, session, overlap, catchup } = values;
  const options = {
    timezone,
    ...(session !== undefined && { session: oneOf('--session', SESSIONS, session) }),
    ...(overlap !== undefined && { overlap: oneOf('--overlap', OVERLAPS, overlap) }),
    ...(catchup !== undefined && { catchup: oneOf('--catchup', CATCHUPS, catchup) }),
  };
  const [action = 'list', ...rest] = positionals;
  const { value, lines } = await perform(client, oneOf('the action', ACTIONS, action), rest, options);
  if (isJson) writeJson(value);
  else for (const line of lines) writeLine(line);
  return EXIT.done;
}

async function perform(
  { schedules }: BatonClient,
  action: Action,
  rest: readonly string[],
  options: Options,
): Promise<Outcome> {
  if (action === 'list') {
    takeArguments(rest);
    const page = await schedules.list();
    const lines = page.schedules.map(describe);
    return { value: page, lines: lines.length === 0 ? ['There are no schedules.'] : lines };
  }
  if (action === 'create') {
    const { agent, cron, message } = takeArguments(rest, 'agent', 'cron', 'message');
    return one(await schedules.create({ agent, cron, content: message, ...options }));
  }
  if (action === 'put') {
    const { key, agent, cron, message } = takeArguments(rest, 'key', 'agent', 'cron', 'message');
    return one(await schedules.put(key, { agent, cron, content: message, ...options }));
  }
  const { schedule } = takeArguments(rest, 'schedule');
  switch (action) {
    case 'pause':
    case 'resume':
      return one(await schedules[action](schedule));
    case 'run': {
      const startedRun = await schedules.run(schedule);
      return { value: startedRun, lines: [`${startedRun.sessionId}  ${startedRun.runId}`] };
    }
    case 'next': {
      const page = await schedules.next(schedule);
      return { value: page, lines: page.fires };
    }
    case 'fires': {
      const page = await schedules.fires(schedule);
      const lines = page.fires.map(describeFire);
      return { value: page, lines: lines.length === 0 ? ['It has not fired.'] : lines };
    }
    case 'delete':
      await schedules.delete(schedule);
      return { value: { id: schedule }, lines: [`${schedule} is deleted.`] };
  }
}

const one = (schedule: Schedule): Outcome => ({ value: schedule, lines: [describe(schedule)] });

function describe({ id, key, agent, cron, timezone, pausedReason, nextFireAt, content }: Schedule): string {
  const next = nextFireAt === null ? 'never' : `next ${nextFireAt.slice(0, 16)}Z`;
  const state = pausedReason === null ? next : `paused (${oneLine(pausedReason, 40)})`;
  const name = key === null ? [] : [`key:${oneLine(key, 60)}`];
  return [id, ...name, state, agent, `${cron} ${timezone}`, oneLine(content, 60)].join('  ');
}

function describeFire({ fireAt, result, runId, error }: ScheduleFire): string {
  const why = error === null ? '' : oneLine(`${error.code}: ${error.message}`, 100);
  return [`${fireAt.slice(0, 16)}Z`, result, runId ?? '', why].filter((fact) => fact !== '').join('  ');
}
