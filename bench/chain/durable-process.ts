// The product's own worker with all features on. Without a provider URL it uses the chain's model in this process.

import { openDependencies } from '../../src/app/dependencies.ts';
import { startJobWorker } from '../../src/app/job-worker.ts';
import { loadConfig } from '../../src/platform/config.ts';
import { createLog } from '../../src/platform/log.ts';
import { countQueries } from '../process/count-queries.ts';
import { tellParent, untilParentStops } from '../process/parent.ts';
import { CHAIN_CATALOGUE, chainModels } from './agent.ts';
import { LOOK_TOOL } from './tool.ts';

const queries = countQueries();
let stretches: number[] = [];
/** An overloaded worker fails thousands of times with the same message: each is printed once. */
const told = new Set<string>();
const write = createLog({ level: 'info' });
const deps = await openDependencies(loadConfig(process.env), {
  migrate: false,
  jobKinds: 4,
  agents: CHAIN_CATALOGUE,
  toolSets: { chain: [LOOK_TOOL] },
  log(level, event) {
    write(level, event);
    if ((level === 'warn' || level === 'error') && !told.has(event.event)) {
      told.add(event.event);
      console.error(event);
    }
    if (event.event !== 'run_ended') return;
    if (event.status === 'completed') return tellParent({ event: 'ended', id: event.runId });
    // The parent waits for every run, so it must be told that this one fails.
    console.error(`run ${event.runId} is ${event.status}: ${event.reason}`);
    process.exit(1);
  },
});
const models = deps.config.openaiBaseUrl === undefined ? chainModels((each) => stretches.push(each)) : deps.models;
const worker = await startJobWorker({ ...deps, models });
tellParent({ event: 'ready' });
await untilParentStops({
  queries,
  takeStretches() {
    const taken = stretches;
    stretches = [];
    return taken;
  },
});
await worker[Symbol.asyncDispose]();
await deps[Symbol.asyncDispose]();
process.exit(0);
