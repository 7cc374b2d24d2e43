/** The answer, or a rejection if none came in time. The work itself goes on. */
export async function within<T>(limitMs: number, asked: Promise<T>): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error('no answer in time')), limitMs);
  try {
    return await Promise.race([asked, late]);
  } finally {
    clearTimeout(timer);
  }
}
