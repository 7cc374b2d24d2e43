import { readDeclarations } from '../declarations/declarations.ts';
import { BatonError } from '../domain/errors.ts';
import { configOf } from '../platform/config.ts';
import { createLog, logTo } from '../platform/log.ts';
import { urlOfPool } from '../platform/url-of-pool.ts';
import { checkCallerPool } from '../store/db/caller-pool.ts';
import { composeBaton } from './compose.ts';
import { readConsoleAccess } from './console-access.ts';
import { type Baton, type BatonOptions, OF_PROCESSES } from './contract.ts';
import { readDefinitions } from './define-agent.ts';
import { checkOptions } from './given-options.ts';

/** See `createBaton`. */
export async function openBaton(options: BatonOptions): Promise<Baton> {
  checkOptions(options);
  const {
    agents,
    models = {},
    log,
    authenticate,
    console: consoleAccess,
    openWithoutKeys = false,
    environment = {},
    migrate = true,
    pool,
    webhooks,
    schedules,
    declaredAs,
    ...ownSettings
  } = options;
  refuseOfProcesses(ownSettings);
  if (pool !== undefined) checkCallerPool(pool);
  const settings =
    pool === undefined
      ? ownSettings
      : { ...ownSettings, databaseUrl: ownSettings.databaseUrl ?? urlOfPool(pool.options) };
  if (agents?.length === 0 || (agents === undefined && settings.agentsDir === undefined)) {
    throw new BatonError('config_invalid', 'there are no agents: give `agents`, or `agentsDir` with their files');
  }
  const declarations = readDeclarations({ webhooks, schedules, declaredAs });
  const { agents: defined, toolSets, models: givenModels } = readDefinitions(agents ?? [], models);
  const composition = await composeBaton(configOf({ ...settings }), {
    migrate,
    log: log === undefined ? createLog({ level: 'silent' }) : logTo(log),
    environment,
    toolSets,
    givenModels,
    hasWorkspace: settings.workspaceDir !== undefined,
    openWithoutKeys,
    readDeclarations: async () => declarations,
    access: {
      isMounted: !openWithoutKeys,
      ...(authenticate !== undefined && { authenticate }),
      ...(consoleAccess !== undefined && { consoleAccess: readConsoleAccess(consoleAccess) }),
    },
    ...(agents !== undefined && { defined }),
    ...(pool !== undefined && { pool }),
  });
  try {
    await composition.openApi();
    await composition.declare();
  } catch (error) {
    await composition[Symbol.asyncDispose]();
    throw error;
  }
  return composition.baton;
}

/** A setting without an effect would mislead. @throws BatonError `config_invalid` */
function refuseOfProcesses(settings: object): void {
  for (const [name, instead] of Object.entries(OF_PROCESSES)) {
    if (!(name in settings)) continue;
    throw new BatonError('config_invalid', `${name}: this is for the processes of the service; ${instead}`);
  }
}
