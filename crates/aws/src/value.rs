//! How values of AWS calls lie in JSON.
//!
//! A call's input and output are `serde_json::Value`s by the names of the model, in the same form that custom
//! resources have them, so nothing is converted between an object and a call: a blob is its base64 text, a
//! timestamp is RFC 3339 text, a float that is no number is `"NaN"`, `"Infinity"` or `"-Infinity"`, and a
//! string that carries JSON stays a string. The protocols write and read these by the shapes.

use jiff::Timestamp;
use jiff::fmt::rfc2822::{DateTimeParser, DateTimePrinter};
pub use serde_json::Value;

use crate::model::TimestampFormat;

/// A moment in the way of the wire; nothing when the value is no moment.
pub(crate) fn write_timestamp(value: &Value, format: TimestampFormat) -> Option<Value> {
    let moment = moment(value)?;
    Some(match format {
        TimestampFormat::UnixTimestamp if moment.subsec_nanosecond() == 0 => moment.as_second().into(),
        TimestampFormat::UnixTimestamp => (moment.as_millisecond() as f64 / 1000.0).into(),
        TimestampFormat::Iso8601 => moment.to_string().into(),
        TimestampFormat::Rfc822 => DateTimePrinter::new().timestamp_to_rfc9110_string(&moment).ok()?.into(),
    })
}

/// A moment from the wire, in whatever way it is written, as RFC 3339 text.
pub(crate) fn read_timestamp(value: &Value) -> Option<Value> {
    moment(value).map(|moment| moment.to_string().into())
}

/// The moment that a value means: RFC 3339, the date of HTTP, or seconds since 1970.
pub fn moment(value: &Value) -> Option<Timestamp> {
    match value {
        Value::Number(number) => match number.as_i64() {
            Some(seconds) => Timestamp::from_second(seconds).ok(),
            None => from_seconds(number.as_f64()?),
        },
        Value::String(text) => {
            let text = text.trim();
            let iso = || text.parse().ok();
            let seconds = || from_seconds(text.parse().ok()?);
            iso().or_else(seconds).or_else(|| http_date(text))
        }
        _ => None,
    }
}

fn from_seconds(seconds: f64) -> Option<Timestamp> {
    // Milliseconds are what AWS measures in; more digits of a float are noise.
    let milliseconds = (seconds * 1000.0).round();
    if !milliseconds.is_finite() || milliseconds.abs() > i64::MAX as f64 / 2.0 {
        return None;
    }
    Timestamp::from_millisecond(milliseconds as i64).ok()
}

/// `Sun, 02 Jan 2000 20:34:56 GMT`, perhaps with a fraction of the second.
fn http_date(text: &str) -> Option<Timestamp> {
    let parser = DateTimeParser::new();
    let Some((before, after)) = text.split_once('.') else { return parser.parse_timestamp(text).ok() };
    let (fraction, zone) = after.split_once(' ')?;
    let whole = parser.parse_timestamp(format!("{before} {zone}")).ok()?;
    let fraction: f64 = format!("0.{fraction}").parse().ok()?;
    Timestamp::from_nanosecond(whole.as_nanosecond() + (fraction * 1e9).round() as i128).ok()
}

/// A scalar as plain text, as query strings, headers and XML have it.
pub(crate) fn plain_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{read_timestamp, write_timestamp};
    use crate::model::TimestampFormat::{Iso8601, Rfc822, UnixTimestamp};

    #[test]
    fn moments_are_written() {
        let check = |value, format, expected| assert_eq!(write_timestamp(&value, format), expected);
        check(json!("2015-01-25T08:00:00Z"), UnixTimestamp, Some(json!(1422172800)));
        check(json!("2015-01-25T08:00:00.5Z"), UnixTimestamp, Some(json!(1422172800.5)));
        check(json!("2015-01-25T09:00:00+01:00"), Iso8601, Some(json!("2015-01-25T08:00:00Z")));
        check(json!(1422172800), Rfc822, Some(json!("Sun, 25 Jan 2015 08:00:00 GMT")));
        check(json!("tomorrow"), Rfc822, None);
        check(json!(null), Iso8601, None);
    }

    #[test]
    fn moments_are_read() {
        let check = |value, expected: &str| assert_eq!(read_timestamp(&value), Some(json!(expected)));
        check(json!(1422172800), "2015-01-25T08:00:00Z");
        check(json!(1422172800.123), "2015-01-25T08:00:00.123Z");
        check(json!("1422172800"), "2015-01-25T08:00:00Z");
        check(json!("Sun, 25 Jan 2015 08:00:00 GMT"), "2015-01-25T08:00:00Z");
        check(json!("Sun, 02 Jan 2000 20:34:56.456 GMT"), "2000-01-02T20:34:56.456Z");
        check(json!("2019-12-16T22:48:18-01:00"), "2019-12-16T23:48:18Z");
        assert_eq!(read_timestamp(&json!("soon")), None);
        assert_eq!(read_timestamp(&json!(1e300)), None);
    }
}
