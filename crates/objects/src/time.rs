//! `metav1.Time` and `metav1.MicroTime` as text. The clock is the caller's.

use jiff::Timestamp;
use jiff::tz::Offset;

/// Why text is no time, in the words of Go.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse {text:?}")]
pub struct TimeError {
    text: String,
}

/// `2024-01-31T12:00:00Z`: whole seconds, as creation timestamps are.
pub fn format(time: Timestamp) -> String {
    Offset::UTC.to_datetime(time).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// `2024-01-31T12:00:00.000001Z`: microseconds, as leases and events have.
pub fn format_micro(time: Timestamp) -> String {
    Offset::UTC.to_datetime(time).strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// Reads RFC 3339 with any offset and any fraction of a second, and nothing looser.
pub fn parse(text: &str) -> Result<Timestamp, TimeError> {
    let error = || TimeError { text: text.to_owned() };
    if !is_rfc3339(text.as_bytes()) {
        return Err(error());
    }
    text.parse().map_err(|_| error())
}

/// The shape only; whether there is a 31st of that month is for the calendar.
fn is_rfc3339(text: &[u8]) -> bool {
    const DATE_AND_TIME: &[u8] = b"dddd-dd-ddTdd:dd:dd";
    const OFFSET: &[u8] = b"sdd:dd";
    let shaped = |text: &[u8], shape: &[u8]| {
        text.len() == shape.len()
            && text.iter().zip(shape).all(|(byte, expected)| match expected {
                b'd' => byte.is_ascii_digit(),
                b's' => matches!(byte, b'+' | b'-'),
                other => byte == other,
            })
    };
    let Some((date_and_time, rest)) = text.split_at_checked(DATE_AND_TIME.len()) else { return false };
    let zone = match rest {
        [b'.', fraction @ ..] => {
            let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
            // Nanoseconds are the end of what is kept.
            if !(1..=9).contains(&digits) {
                return false;
            }
            fraction.get(digits..).unwrap_or_default()
        }
        zone => zone,
    };
    let leap = text.get(17..19) == Some(b"60");
    shaped(date_and_time, DATE_AND_TIME) && !leap && (zone == b"Z" || shaped(zone, OFFSET))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_read_is_written_in_utc() {
        for (text, seconds, micros) in [
            ("2024-01-31T12:00:00Z", "2024-01-31T12:00:00Z", "2024-01-31T12:00:00.000000Z"),
            ("2024-01-31T12:00:00.123456789Z", "2024-01-31T12:00:00Z", "2024-01-31T12:00:00.123456Z"),
            ("2024-01-31T14:00:00+02:00", "2024-01-31T12:00:00Z", "2024-01-31T12:00:00.000000Z"),
            ("1969-12-31T23:59:59.5Z", "1969-12-31T23:59:59Z", "1969-12-31T23:59:59.500000Z"),
            ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000000Z"),
        ] {
            let time = parse(text).unwrap();
            assert_eq!((format(time).as_str(), format_micro(time).as_str()), (seconds, micros), "{text}");
        }
    }

    #[test]
    fn refusals() {
        for text in [
            "",
            "now",
            "2024-01-31",
            "2024-01-31 12:00:00Z",
            "2024-01-31t12:00:00z",
            "2024-01-31T12:00:00",
            "2024-02-31T12:00:00Z",
            "2024-01-31T12:00:60Z",
            "2024-01-31T25:00:00Z",
            "2024-01-31T12:00:00.Z",
            "2024-01-31T12:00:00+0200",
            "2024-01-31T12:00:00Z[UTC]",
            "+02024-01-31T12:00:00Z",
        ] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn micro_times_come_back(micros in -62_135_596_800_000_000i64..253_402_207_200_000_000) {
            let time = Timestamp::from_microsecond(micros).unwrap();
            prop_assert_eq!(parse(&format_micro(time)).unwrap(), time);
        }

        #[test]
        fn no_text_makes_it_panic(text in "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}.{0,8}|.{0,30}") {
            let _ = parse(&text);
        }
    }
}
