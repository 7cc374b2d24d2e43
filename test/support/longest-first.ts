import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Files that take minutes, mostly in waiting. If one of them started last, the test run would wait for it alone. */
const LONGEST = [
  'test/faults/faults.test.ts',
  'test/faults/flatness.test.ts',
  'test/flow/postgres-outage.test.ts',
  'test/cli/demo.test.ts',
  'test/docs/pages.test.ts',
  'test/flow/liveness.test.ts',
  'test/embedded/ownership.test.ts',
  'test/flow/waiting-memory.test.ts',
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
