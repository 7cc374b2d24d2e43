import { useRef, useState } from 'react';

type Functions = Readonly<Record<string, unknown>>;

/** The same object for as long as its plain values are the same; its functions always do the newest. */
export function useStable<Value extends Functions>(value: Value): Value {
  const newest = useRef(value);
  newest.current = value;
  const wrap = (): Value =>
    Object.fromEntries(
      Object.entries(value).map(([name, one]) => [
        name,
        typeof one === 'function'
          ? (...given: readonly unknown[]) =>
              (newest.current[name] as (...given: readonly unknown[]) => unknown)(...given)
          : one,
      ]),
    ) as Value;
  const [stable, set] = useState(wrap);
  const isSame = Object.entries(value).every(([name, one]) => typeof one === 'function' || stable[name] === one);
  if (isSame) return stable;
  const renewed = wrap();
  set(renewed);
  return renewed;
}
