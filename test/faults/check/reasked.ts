import type { BackgroundRecord } from '../../../simulator/background.ts';

/** A response in the background, as the provider has it. */
export type MadeResponse = Pick<BackgroundRecord, 'id' | 'requestNo' | 'cacheKey' | 'digest' | 'status'>;

/**
 * Model calls that were asked again although the provider still had the answer, and a worker had made its id durable:
 * the same request of the same session. What failed or was cancelled is not there to be read again.
 * @param noted ids that are in the database
 */
export function checkReasked(made: readonly MadeResponse[], noted: ReadonlySet<string>): string[] {
  const same = Map.groupBy(made, ({ cacheKey, digest }) => `${cacheKey} ${digest}`);
  return [...same.values()].flatMap((group) =>
    group.slice(1).flatMap(({ requestNo }, no) => {
      const earlier = group.slice(0, no + 1).find((each) => isThere(each) && noted.has(each.id));
      return earlier === undefined ? [] : [`request ${requestNo} asks again for ${earlier.id} (${earlier.status})`];
    }),
  );
}

const isThere = ({ status }: MadeResponse): boolean => status !== 'failed' && status !== 'cancelled';
