import type { Meter } from './chat-message.ts';

export function ContextMeter({ used, usable }: Meter) {
  const percent = usable === 0 ? 0 : Math.min(100, Math.round((used / usable) * 100));
  const label = `${used.toLocaleString('en-US')} of ${usable.toLocaleString('en-US')} tokens`;
  return (
    <div className="meter" title={label}>
      <span className="meter-label">context {percent} %</span>
      <progress max={100} value={percent} aria-label={`Context: ${label}`} />
      <span className="meter-label">{label}</span>
    </div>
  );
}
