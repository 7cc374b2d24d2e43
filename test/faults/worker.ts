// A worker process of the fault suite: the ordinary one, with tools that leave a trace outside of the database.
import { startJobWorker } from '../../src/runtime/job-worker.ts';
import { runProcess } from '../../src/runtime/run-process.ts';
import { createLedgerTools } from './ledger-tools.ts';

const ledgerFile = process.env['BATON_TEST_LEDGER'] ?? '';
const dieAfterEffects = Number(process.env['BATON_TEST_DIE_AFTER_EFFECTS'] ?? Number.POSITIVE_INFINITY);

await runProcess(
  'worker',
  async (deps, stack) => {
    stack.use(await startJobWorker(deps));
    return undefined;
  },
  { migrate: false, toolSets: { ledger: createLedgerTools(ledgerFile, dieAfterEffects) } },
);
