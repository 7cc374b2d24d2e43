import type { ReactNode } from 'react';
import { count } from '../format.ts';

export type Bar = Readonly<{ at: string; words: string; value: number }>;

const HEIGHT_PX = 28;
const STEP_PX = 6;

/** Small bars of counts over time. */
export function Bars({ bars, label }: Readonly<{ bars: readonly Bar[]; label: string }>): ReactNode {
  const most = Math.max(1, ...bars.map(({ value }) => value));
  const width = bars.length * STEP_PX;
  return (
    <svg role="img" aria-label={label} width={width} height={HEIGHT_PX} className="flex-none">
      <line x1={0} x2={width} y1={HEIGHT_PX - 0.5} y2={HEIGHT_PX - 0.5} stroke="var(--color-line)" />
      {bars.map(({ at, words, value }, index) => {
        const height = value === 0 ? 0 : Math.max(2, (value / most) * (HEIGHT_PX - 2));
        return (
          <g key={at}>
            <title>{`${words}: ${count(value)}`}</title>
            <rect x={index * STEP_PX} y={0} width={STEP_PX} height={HEIGHT_PX} fill="transparent" />
            <rect
              x={index * STEP_PX + 1}
              y={HEIGHT_PX - height}
              width={STEP_PX - 2}
              height={height}
              fill="var(--color-failed)"
            />
          </g>
        );
      })}
    </svg>
  );
}
