import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Files that take longer than the others, the longest first. If one started last, the test run would wait for it alone. */
const LONGEST = [
  'test/faults/faults.test.ts',
  'test/cli/demo.test.ts',
  'test/eval/recordings-postgres.test.ts',
  'test/package/package.test.ts',
  'test/docs/pages.test.ts',
  'test/flow/postgres-outage.test.ts',
  'test/flow/waiting-memory.test.ts',
  'test/faults/flatness.test.ts',
  'test/console/pages.test.ts',
  'test/examples/chat-page.test.ts',
  'test/flow/liveness.test.ts',
  'test/console/session.test.ts',
  'test/eval/recordings-redis.test.ts',
  'test/eval/context-costs.test.ts',
  'test/cli/baton.test.ts',
  'test/bench/cases.test.ts',
  'test/flow/readme.test.ts',
  'test/flow/processes.test.ts',
  'test/console/outages.test.ts',
  'test/flow/children-deaths.test.ts',
  'test/embedded/launcher.test.ts',
  'test/docs/library-page.test.ts',
  'test/embedded/ownership.test.ts',
];

/** Starts the longest files first. Vitest itself knows how long a file takes only where it has run before. */
export default class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification): number => {
      const at = LONGEST.findIndex((file) => moduleId.endsWith(file));
      return at < 0 ? LONGEST.length : at;
    };
    return (await super.sort(files)).sort((one, other) => rank(one) - rank(other));
  }
}
