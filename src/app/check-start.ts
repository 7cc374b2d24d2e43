import { existsSync } from 'node:fs';
import path from 'node:path';
import { fileErrorsIn } from '../agents/load-agents.ts';
import { BatonError } from '../domain/errors.ts';
import { STORE_ANSWER_WITHIN_MS } from '../domain/tunables.ts';
import { batonCommand } from '../platform/baton-command.ts';
import { type Config, loadConfig } from '../platform/config.ts';
import type { LogEvent } from '../platform/log.ts';
import { redisServerOf } from '../platform/redis-server.ts';
import { VARIABLES } from '../platform/settings.ts';
import { openDatabase } from '../store/db/database.ts';
import { pendingChanges } from '../store/db/migrate.ts';
import { checkPostgres, checkRedis } from './check-stores.ts';
import { openAgentParts } from './open-agents.ts';
import { checkWorkspaceIsApart } from './own-places.ts';

/** One result of a check. A warning does not keep the service from starting, an error does. */
export type Finding = Readonly<{ level: 'ok' | 'warning' | 'error'; what: string; message: string }>;

type Check = (config: Config, environment: NodeJS.ProcessEnv) => Promise<readonly Finding[]>;

/**
 * Makes the checks of a start without starting: it writes nothing and asks no model or MCP server for an answer. Yields
 * findings as they are made; an error does not hide later ones.
 * @param options.offline neither Postgres nor Redis is asked
 */
export async function* checkStart(
  environment: NodeJS.ProcessEnv,
  options: Readonly<{ offline: boolean }>,
): AsyncGenerator<Finding> {
  let config: Config;
  try {
    config = loadConfig(environment);
  } catch (error) {
    yield toError('settings', error);
    return;
  }
  yield ok('settings', 'are valid');
  const checks: [string, Check][] = [
    ['workspace', checkWorkspace],
    ...(options.offline
      ? []
      : ([
          ['postgres', checkDatabase],
          ['redis', checkQueue],
        ] satisfies [string, Check][])),
    ['agents', checkAgents],
    ['declarations', checkDeclarations],
  ];
  for (const [what, check] of checks) {
    yield* await check(config, environment).catch((error: unknown) => toErrors(what, error));
  }
}

const ok = (what: string, message: string): Finding => ({ level: 'ok', what, message });
const warning = (what: string, message: string): Finding => ({ level: 'warning', what, message });

/** @throws the error itself if it is no BatonError */
function toError(what: string, error: unknown): Finding {
  if (!(error instanceof BatonError)) throw error;
  return { level: 'error', what, message: error.message };
}

/** One finding for each wrong agent file. @throws the error itself if it is no BatonError */
function toErrors(what: string, error: unknown): Finding[] {
  const files = fileErrorsIn(error);
  return files.length === 0 ? [toError(what, error)] : files.map((one) => toError(what, one));
}

async function checkWorkspace(config: Config): Promise<Finding[]> {
  await checkWorkspaceIsApart(config);
  const folder = path.resolve(config.workspaceDir);
  return [ok('workspace', existsSync(folder) ? folder : `${folder} is not there: a worker makes it when it starts`)];
}

async function checkDatabase({ databaseUrl, dataDir }: Config): Promise<Finding[]> {
  if (databaseUrl === undefined) {
    return [ok('postgres', `${VARIABLES.databaseUrl} is not set: an embedded one keeps its files in ${dataDir}`)];
  }
  await checkPostgres(databaseUrl);
  const db = openDatabase({
    connectionString: databaseUrl,
    maxConnections: 1,
    answerWithinMs: STORE_ANSWER_WITHIN_MS,
  });
  try {
    const pending = await pendingChanges(db);
    if (pending.length === 0) return [ok('postgres', 'can be used, and is up to date')];
    return [
      warning(
        'postgres',
        `can be used, and lacks ${pending.length} migrations and functions: run "${batonCommand()} migrate"`,
      ),
    ];
  } finally {
    await db.destroy();
  }
}

async function checkQueue(config: Config): Promise<Finding[]> {
  const redis = redisServerOf(config);
  if (redis === undefined) return [ok('redis', `${VARIABLES.redisUrl} is not set: queues are in Postgres`)];
  const { evictionPolicy } = await checkRedis(redis);
  if (evictionPolicy === 'noeviction') return [ok('redis', 'can be used')];
  const why = 'jobs that it drops come back from Postgres late: set maxmemory-policy noeviction';
  return [warning('redis', `can be used, but its eviction policy is ${evictionPolicy}; ${why}`)];
}

async function checkAgents(config: Config, environment: NodeJS.ProcessEnv): Promise<Finding[]> {
  const logged: LogEvent[] = [];
  // A session's tools would read it, but none is called here.
  const db = openDatabase({ connectionString: config.databaseUrl ?? 'postgres://127.0.0.1/unused', maxConnections: 1 });
  try {
    await using parts = await openAgentParts(config, { db, log: (_, event) => logged.push(event) }, { environment });
    await parts.warned;
    const names = (await parts.agents.current()).names();
    return [ok('agents', `can be served: ${names.join(', ') || 'none'}`), ...logged.flatMap(toWarning)];
  } finally {
    await db.destroy();
  }
}

async function checkDeclarations({ agentsDir }: Config, environment: NodeJS.ProcessEnv): Promise<Finding[]> {
  // Workers check the start as well, and load nothing of the API.
  const { readDeclarationFiles } = await import('../declarations/read-files.ts');
  const { webhooks, schedules } = readDeclarationFiles(agentsDir, environment);
  const [hooks, clocks] = [webhooks?.length ?? 0, schedules?.length ?? 0];
  return hooks + clocks === 0 ? [] : [ok('declarations', `${hooks} webhooks, ${clocks} schedules`)];
}

function toWarning(event: LogEvent): Finding[] {
  switch (event.event) {
    case 'agents_missing':
      return [warning('agents', `${event.folder} has no YAML file: no session can be created`)];
    case 'agent_without_provider':
      return [
        warning(`agent ${event.agent}`, `no provider is configured for ${event.model}: its sessions are refused`),
      ];
    case 'agent_window_guessed': {
      const { agent, model, contextWindow } = event;
      const how = `its window is taken to have ${contextWindow} tokens; ${VARIABLES.modelsFile} can tell`;
      return [warning(`agent ${agent}`, `the context window of ${model} is not known: ${how}`)];
    }
    case 'agent_threshold_low': {
      const { agent, model, thresholdTokens, leastTokens } = event;
      const what = `its threshold of ${thresholdTokens} tokens is less than instructions and a summary (${leastTokens})`;
      return [warning(`agent ${agent}`, `${what} in the window of ${model}: raise thresholdPercent`)];
    }
    case 'mcp_command_missing': {
      const what = `its command ${event.command} is not on this machine: sessions that need it are refused`;
      return [warning(`MCP server ${event.server}`, what)];
    }
    default:
      return [];
  }
}
