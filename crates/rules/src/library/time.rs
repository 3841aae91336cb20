//! Timestamps and durations, and the other forms in which a string of the wire is a value: base64.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use jiff::tz::{Offset, TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp, Zoned};

use super::{Overload, T, member, take};
use crate::error::EvalError;
use crate::value::Val;

type Outcome<'a> = Result<Val<'a>, EvalError>;
type Part = fn(&Zoned) -> i64;

const SECOND: i64 = 1_000_000_000;

/// The parts of a timestamp; each has a row without a time zone and one with.
macro_rules! parts {
    ($($name:literal => $part:expr),* $(,)?) => {
        &[
            $(
                member($name, &[T::Timestamp], T::Int, |v, _| part(v, $part)),
                member($name, &[T::Timestamp, T::Str], T::Int, |v, _| part(v, $part)),
            )*
            member("getHours", &[T::Duration], T::Int, |v, _| whole(v, 3600 * SECOND)),
            member("getMinutes", &[T::Duration], T::Int, |v, _| whole(v, 60 * SECOND)),
            member("getSeconds", &[T::Duration], T::Int, |v, _| whole(v, SECOND)),
            member("getMilliseconds", &[T::Duration], T::Int, |v, _| {
                take!(v, [Val::Duration(nanos)] => Ok(Val::Int(nanos % SECOND / 1_000_000)))
            }),
        ]
    };
}

pub(super) const OVERLOADS: &[Overload] = parts! {
    "getFullYear" => |t| i64::from(t.year()),
    "getMonth" => |t| i64::from(t.month()) - 1,
    "getDate" => |t| i64::from(t.day()),
    "getDayOfMonth" => |t| i64::from(t.day()) - 1,
    "getDayOfWeek" => |t| i64::from(t.weekday().to_sunday_zero_offset()),
    "getDayOfYear" => |t| i64::from(t.day_of_year()) - 1,
    "getHours" => |t| i64::from(t.hour()),
    "getMinutes" => |t| i64::from(t.minute()),
    "getSeconds" => |t| i64::from(t.second()),
    "getMilliseconds" => |t| i64::from(t.subsec_nanosecond()) / 1_000_000,
};

fn part<'a>(v: &[Val<'a>], part: Part) -> Outcome<'a> {
    let (timestamp, zone) = match v {
        [Val::Timestamp(timestamp)] => (timestamp, TimeZone::UTC),
        [Val::Timestamp(timestamp), Val::Str(name)] => (timestamp, time_zone(name)?),
        _ => return Err(EvalError::NoSuchOverload),
    };
    Ok(Val::Int(part(&timestamp.to_zoned(zone))))
}

/// `Europe/Berlin`, `+02:00`, `-7:30`, `UTC`
fn time_zone(name: &str) -> Result<TimeZone, EvalError> {
    let unknown = || EvalError::function(format!("unknown time zone {name}"));
    let Some((hours, minutes)) = name.split_once(':') else {
        return match name {
            "" | "UTC" | "Z" => Ok(TimeZone::UTC),
            _ => TimeZoneDatabase::bundled().get(name).map_err(|_| unknown()),
        };
    };
    let negative = hours.starts_with('-');
    let hours: i32 = hours.trim_start_matches(['+', '-']).parse().map_err(|_| unknown())?;
    let minutes: i32 = minutes.parse().map_err(|_| unknown())?;
    if !(0..24).contains(&hours) || !(0..60).contains(&minutes) {
        return Err(unknown());
    }
    let seconds = (hours * 60 + minutes) * 60;
    let offset = Offset::from_seconds(if negative { -seconds } else { seconds }).map_err(|_| unknown())?;
    Ok(TimeZone::fixed(offset))
}

fn whole<'a>(v: &[Val<'a>], unit: i64) -> Outcome<'a> {
    take!(v, [Val::Duration(nanos)] => Ok(Val::Int(nanos / unit)))
}

pub(super) fn shift<'a>(timestamp: Timestamp, nanos: i64) -> Outcome<'a> {
    let moved = timestamp.checked_add(SignedDuration::from_nanos(nanos));
    moved.map(Val::Timestamp).map_err(|_| EvalError::Overflow("timestamp"))
}

/// RFC 3339; years 1 to 9999.
pub(crate) fn parse_timestamp(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    // Go wants seconds and an offset, and accepts no other separator.
    let fixed = |at: usize, c: u8| bytes.get(at) == Some(&c);
    if !(fixed(4, b'-') && fixed(7, b'-') && fixed(10, b'T') && fixed(13, b':') && fixed(16, b':')) {
        return None;
    }
    text.parse().ok()
}

/// `format: date` or `format: date-time`
pub(crate) fn parse_date_or_time(text: &str) -> Option<Timestamp> {
    if let Some(timestamp) = parse_timestamp(text) {
        return Some(timestamp);
    }
    let date: jiff::civil::Date = text.parse().ok()?;
    date.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
}

pub(crate) fn show_timestamp(timestamp: Timestamp) -> String {
    timestamp.to_string()
}

/// `3600s`, `1.5s`
pub(crate) fn show_duration(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let (seconds, fraction) = (nanos.unsigned_abs() / 1_000_000_000, nanos.unsigned_abs() % 1_000_000_000);
    if fraction == 0 {
        return format!("{sign}{seconds}s");
    }
    let fraction = format!("{fraction:09}");
    format!("{sign}{seconds}.{}s", fraction.trim_end_matches('0'))
}

/// Go's units; the longer ones first where one begins another.
const UNITS: [(&str, i64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("h", 3600 * SECOND),
    ("m", 60 * SECOND),
    ("s", SECOND),
];

/// `1h30m`, `-1.5s`, `0`: nanoseconds.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut total: i128 = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let (unit, after) =
            UNITS.iter().find_map(|(name, unit)| after.strip_prefix(name).map(|a| (*unit, a)))?;
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        total = total.checked_add(whole.checked_mul(i128::from(unit))?)?;
        let mut scale = i128::from(unit);
        for digit in fraction.bytes() {
            scale /= 10;
            total = total.checked_add(i128::from(digit - b'0') * scale)?;
        }
        rest = after;
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Standard base64, with or without its padding.
pub(crate) fn base64(text: &str) -> Option<Arc<[u8]>> {
    LENIENT.decode(text).ok().map(Arc::from)
}

pub(crate) fn to_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}
