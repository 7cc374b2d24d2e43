// The durable worker: the product's own, with everything on, and the chain's model in place of a provider.

import { loadConfig } from '../../src/runtime/config.ts';
import { openDependencies } from '../../src/runtime/dependencies.ts';
import { startJobWorker } from '../../src/runtime/job-worker.ts';
import { createLog } from '../../src/runtime/log.ts';
import { countQueries } from '../process/count-queries.ts';
import { tellParent, untilParentStops } from '../process/parent.ts';
import { CHAIN_CATALOGUE, chainModels } from './agent.ts';
import { LOOK_TOOL } from './tool.ts';

const queries = countQueries();
const write = createLog({ level: 'info' });
const deps = await openDependencies(loadConfig(process.env), {
  migrate: false,
  jobKinds: 3,
  agents: CHAIN_CATALOGUE,
  toolSets: { chain: [LOOK_TOOL] },
  log(level, event) {
    write(level, event);
    if (level === 'warn' || level === 'error') console.error(event);
    if (event.event !== 'run_ended') return;
    if (event.status !== 'completed') throw new Error(`run ${event.runId} is ${event.status}: ${event.reason}`);
    tellParent({ event: 'ended', id: event.runId });
  },
});
const worker = await startJobWorker({ ...deps, models: chainModels() });
tellParent({ event: 'ready' });
await untilParentStops(queries);
await worker[Symbol.asyncDispose]();
await deps[Symbol.asyncDispose]();
process.exit(0);
