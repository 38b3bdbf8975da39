// Numbers, times and sizes as people read them.

export function compact(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "";
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 1e9) return `${trim(value / 1e9, 3)}G`;
  if (size >= 1e6) return `${trim(value / 1e6, 3)}M`;
  if (size >= 1e4) return `${trim(value / 1e3, 3)}k`;
  if (size >= 1e-3) return trim(value, 4);
  return value.toExponential(1).replace("e-", "e−").replace(/^-/, "−");
}

export function score(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "";
  const size = Math.abs(value);
  if (size >= 1e6 || (size > 0 && size < 1e-3)) return compact(value);
  return minus(value.toLocaleString("en", {
    minimumFractionDigits: size >= 10 && size < 1000 ? 1 : 0,
    maximumFractionDigits: size >= 1000 ? 0 : size >= 10 ? 1 : size >= 0.1 ? 3 : 5,
  }));
}

export function whole(value) {
  return value === null || value === undefined ? "" : Math.round(value).toLocaleString("en");
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "";
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${pad(Math.floor(seconds % 60))} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${pad(Math.floor(seconds / 60) % 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor(seconds / 3600) % 24} h`;
}

export function ago(iso) {
  const seconds = (Date.now() - Date.parse(iso)) / 1000;
  if (!Number.isFinite(seconds)) return "";
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]]) {
    if (seconds >= size) return `${Math.floor(seconds / size)} ${unit}`;
  }
  return `${Math.max(0, Math.floor(seconds))} s`;
}

export function moment(iso) {
  const time = new Date(iso);
  return Number.isNaN(time.getTime()) ? "" : time.toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
}

export function bytes(size) {
  for (const unit of ["B", "KiB", "MiB"]) {
    if (size < 1024) return `${size < 10 && unit !== "B" ? size.toFixed(1) : Math.round(size)} ${unit}`;
    size /= 1024;
  }
  return `${size.toFixed(1)} GiB`;
}

export function axisTime(seconds, span) {
  if (span < 180) return `${trim(seconds, 4)} s`;
  if (span < 3 * 3600) return `${trim(seconds / 60, 4)} min`;
  return `${trim(seconds / 3600, 4)} h`;
}

function trim(value, digits) {
  return minus(String(Number(value.toPrecision(digits))));
}

function minus(text) {
  return text.replace(/^-/, "−");
}

function pad(number) {
  return String(number).padStart(2, "0");
}
