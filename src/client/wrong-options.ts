/** They return an iteration, so they throw where the others reject. */
const STREAMS: ReadonlySet<string> = new Set(['events', 'runs.follow', 'activity']);

/**
 * The same methods, which refuse options that are no object before anything is sent. Programs in JavaScript have no
 * types, and a default does not stand in for `null`.
 * @param toError the error of a refusal, by what is wrong
 */
export function refuseWrongOptions<Methods extends object>(
  methods: Methods,
  toError: (problem: string) => Error,
  of = '',
): Methods {
  const guarded = Object.entries(methods).map(([key, member]: [string, unknown]) => {
    const name = of + key;
    if (typeof member === 'object' && member !== null) return [key, refuseWrongOptions(member, toError, `${name}.`)];
    return [key, typeof member === 'function' ? guard(name, member, toError) : member];
  });
  return Object.fromEntries(guarded) as Methods;
}

function guard(name: string, method: object, toError: (problem: string) => Error) {
  // Options have a default in each method, and a function's length counts what stands before the first default.
  const required = Number(Reflect.get(method, 'length'));
  return (...given: unknown[]): unknown => {
    const wrong = given.slice(required).find((options) => options !== undefined && !isOptions(options));
    if (wrong === undefined) return Reflect.apply(method as () => unknown, undefined, given);
    const said = wrong === null || Array.isArray(wrong) ? JSON.stringify(wrong) : `a ${typeof wrong}`;
    const error = toError(`${name}: expected options, an object such as {}, and got ${said}. Leave them out for none`);
    if (STREAMS.has(name)) throw error;
    return Promise.reject(error);
  };
}

const isOptions = (value: unknown): boolean => typeof value === 'object' && value !== null && !Array.isArray(value);
