import { type ReactNode, useEffect, useRef, useState } from 'react';
import uPlot from 'uplot';
import { cost, shortCount } from '../format.ts';
import { useTheme } from '../theme.ts';
import type { Days } from './usage-sums.ts';

const HEIGHT_PX = 220;
const AXIS_PX = 56;
const HALF_DAY_S = 43_200;

/** Of the series from the first on; more than these are summed up. */
export const CHART_COLORS = [
  'var(--color-chart-1)',
  'var(--color-chart-2)',
  'var(--color-chart-3)',
  'var(--color-chart-4)',
  'var(--color-chart-5)',
  'var(--color-bar-own)',
] as const;

type Props = Readonly<{ data: Days; unit: 'tokens' | 'cost'; label: string }>;

/** Stacked bars, one a day. The day below the pointer is told in words. */
export function UsageChart({ data, unit, label }: Props): ReactNode {
  const box = useRef<HTMLDivElement>(null);
  const [at, setAt] = useState<number | null>(null);
  const theme = useTheme();
  const isDark = useIsDark();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the colours change with the theme.
  useEffect(() => {
    const place = box.current;
    if (place === null) return;
    const plot = new uPlot(optionsOf(place, data, unit, setAt), stackOf(data), place);
    const watch = new ResizeObserver(() => plot.setSize({ width: place.clientWidth, height: HEIGHT_PX }));
    watch.observe(place);
    return () => {
      watch.disconnect();
      plot.destroy();
    };
  }, [data, unit, theme, isDark]);
  const day = at === null ? undefined : data.days[at];
  return (
    <div>
      <p className="flex min-h-6 flex-wrap items-center gap-x-4 text-sm" aria-live="off">
        <b className="w-24 font-medium">
          {day === undefined
            ? unit === 'cost'
              ? 'Cost per day'
              : 'Tokens per day'
            : new Date(day * 1_000).toISOString().slice(0, 10)}
        </b>
        {data.series.map(({ name, values }, index) => (
          <span key={name} className="flex items-center gap-1.5">
            <span className="size-2 rounded-sm" style={{ background: CHART_COLORS[index] }} aria-hidden="true" />
            <span className="max-w-48 truncate">{name}</span>
            {at !== null && <span className="text-dim">{words(values[at] ?? 0, unit)}</span>}
          </span>
        ))}
      </p>
      <div ref={box} role="img" aria-label={label} style={{ height: HEIGHT_PX }} />
    </div>
  );
}

const words = (value: number, unit: 'tokens' | 'cost'): string => (unit === 'cost' ? cost(value) : shortCount(value));

/** uPlot draws one series over the other: the highest sum first. */
function stackOf({ days, series }: Days): uPlot.AlignedData {
  const sums = days.map(() => 0);
  const stacked = series.map(({ values }) =>
    values.map((value, at) => {
      sums[at] = (sums[at] ?? 0) + value;
      return sums[at] ?? 0;
    }),
  );
  return [[...days], ...stacked.toReversed()];
}

function optionsOf(
  place: HTMLElement,
  { series }: Days,
  unit: Props['unit'],
  setAt: (at: number | null) => void,
): uPlot.Options {
  const [ink, line] = [colorOf(place, 'var(--color-dim)'), colorOf(place, 'var(--color-line)')];
  const axis = { stroke: ink, font: '11px system-ui', ticks: { show: false }, grid: { stroke: line, width: 1 } };
  const bars = uPlot.paths.bars?.({ size: [0.7, 40], align: 0 });
  return {
    width: place.clientWidth,
    height: HEIGHT_PX,
    padding: [8, 20, 0, 0],
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1_000), 'Etc/UTC'),
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
    // Half a day on both sides, so that the first and the last bar are whole.
    scales: {
      x: { range: (_, first, last) => [first - HALF_DAY_S, last + HALF_DAY_S] },
      y: { range: (_, __, most) => [0, most > 0 ? most * 1.05 : 1] },
    },
    series: [
      {},
      ...series
        .map((_, index) => ({
          fill: colorOf(place, CHART_COLORS[index] ?? 'var(--color-bar-own)'),
          width: 0,
          points: { show: false },
          ...(bars !== undefined && { paths: bars }),
        }))
        .toReversed(),
    ],
    axes: [
      {
        ...axis,
        grid: { show: false },
        values: (_, days) => days.map((day) => new Date(day * 1_000).toISOString().slice(5, 10)),
      },
      { ...axis, size: AXIS_PX, values: (_, values) => values.map((value) => words(value, unit)) },
    ],
    hooks: {
      setCursor: [({ cursor }) => setAt(cursor.left === undefined || cursor.left < 0 ? null : (cursor.idx ?? null))],
    },
  };
}

/** A colour of the sheet as the canvas takes it. */
function colorOf(place: HTMLElement, color: string): string {
  const sample = document.createElement('span');
  sample.style.color = color;
  place.append(sample);
  const { color: known } = getComputedStyle(sample);
  sample.remove();
  return known;
}

function useIsDark(): boolean {
  const [isDark, setDark] = useState(() => matchMedia('(prefers-color-scheme: dark)').matches);
  useEffect(() => {
    const scheme = matchMedia('(prefers-color-scheme: dark)');
    const listener = (): void => setDark(scheme.matches);
    scheme.addEventListener('change', listener);
    return () => scheme.removeEventListener('change', listener);
  }, []);
  return isDark;
}
