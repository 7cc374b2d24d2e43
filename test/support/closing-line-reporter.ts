import type { Reporter, TestModule } from 'vitest/node';

/** Ends the output with a line for each failure and one count, `N passed, N failed, N skipped`, for readers of its end. */
export default class ClosingLineReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
    const count = { passed: 0, failed: 0, skipped: 0, pending: 0 };
    const failures = errors.map((error) => `outside of all tests: ${firstLine(error)}`);
    for (const module of modules) {
      failures.push(...module.errors().map((error) => `${module.relativeModuleId}: ${firstLine(error)}`));
      for (const test of module.children.allTests()) {
        const { state, errors: reasons } = test.result();
        count[state]++;
        if (state === 'failed') {
          failures.push(`${module.relativeModuleId} > ${test.fullName}: ${firstLine(reasons[0])}`);
        }
      }
    }
    count.failed = failures.length;
    const lines = failures.map((failure) => `failed: ${failure}\n`).join('');
    // The other reporters print when this round of callbacks is over.
    process.once('exit', () => {
      process.stdout.write(`${lines}${count.passed} passed, ${count.failed} failed, ${count.skipped} skipped\n`);
    });
  }
}

function firstLine(error: unknown): string {
  const text = isError(error) ? error.message : String(error);
  return text.split('\n', 1)[0] ?? '';
}

/** Errors of tests come from another process, as plain objects. */
const isError = (error: unknown): error is { message: string } =>
  typeof error === 'object' && error !== null && 'message' in error && typeof error.message === 'string';
