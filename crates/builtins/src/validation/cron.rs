//! Cron schedules, as the `robfig/cron` library that Kubernetes uses reads them.

/// The bounds of a field, and names that stand for numbers in it.
struct Field {
    low: u32,
    high: u32,
    names: &'static [&'static str],
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const FIELDS: [Field; 5] = [
    Field { low: 0, high: 59, names: &[] },
    Field { low: 0, high: 23, names: &[] },
    Field { low: 1, high: 31, names: &[] },
    Field { low: 1, high: 12, names: &MONTHS },
    Field { low: 0, high: 6, names: &DAYS },
];

/// What is wrong with a schedule, in the words of the library.
pub(super) fn parse(schedule: &str) -> Result<(), String> {
    if schedule.is_empty() {
        return Err("empty spec string".to_owned());
    }
    let mut rest = schedule;
    if rest.starts_with("TZ=") || rest.starts_with("CRON_TZ=") {
        let Some((_, after)) = rest.split_once(' ') else {
            return Err(format!("provided bad location {rest}"));
        };
        rest = after.trim();
    }
    if rest.starts_with('@') {
        return descriptor(rest);
    }
    let fields: Vec<&str> = rest.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    fields
        .iter()
        .zip(&FIELDS)
        .try_for_each(|(text, field)| text.split(',').try_for_each(|range| self::range(range, field)))
}

fn descriptor(text: &str) -> Result<(), String> {
    match text {
        "@yearly" | "@annually" | "@monthly" | "@weekly" | "@daily" | "@midnight" | "@hourly" => Ok(()),
        _ => match text.strip_prefix("@every ") {
            Some(duration) if is_duration(duration) => Ok(()),
            Some(duration) => {
                Err(format!("failed to parse duration {text}: time: invalid duration {duration:?}"))
            }
            None => Err(format!("unrecognized descriptor: {text}")),
        },
    }
}

/// `1h30m`: numbers, perhaps with a fraction, each with a unit.
fn is_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    let mut parts = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number = &rest[..digits];
        if !number.bytes().any(|b| b.is_ascii_digit()) || number.matches('.').count() > 1 {
            return false;
        }
        let units = ["ns", "us", "µs", "ms", "s", "m", "h"];
        let Some(unit) = units.iter().find(|unit| rest[digits..].starts_with(**unit)) else { return false };
        rest = &rest[digits + unit.len()..];
        parts += 1;
    }
    parts > 0
}

/// `*`, `5`, `1-5`, `*/2`, `1-5/2`, each end a number or a name.
fn range(text: &str, field: &Field) -> Result<(), String> {
    let (span, step) = match text.split('/').collect::<Vec<_>>()[..] {
        [span] => (span, None),
        [span, step] => (span, Some(step)),
        _ => return Err(format!("too many slashes: {text}")),
    };
    let (low, high) = match span.split('-').collect::<Vec<_>>()[..] {
        ["*" | "?"] => (field.low, field.high),
        [one] => {
            let one = number(one, field)?;
            (one, if step.is_some() { field.high } else { one })
        }
        [low, high] => (number(low, field)?, number(high, field)?),
        _ => return Err(format!("too many hyphens: {text}")),
    };
    let step = step.map_or(Ok(1), |step| number(step, &Field { low: 0, high: u32::MAX, names: &[] }))?;
    if low < field.low {
        return Err(format!("beginning of range ({low}) below minimum ({}): {text}", field.low));
    }
    if high > field.high {
        return Err(format!("end of range ({high}) above maximum ({}): {text}", field.high));
    }
    if low > high {
        return Err(format!("beginning of range ({low}) beyond end of range ({high}): {text}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    Ok(())
}

fn number(text: &str, field: &Field) -> Result<u32, String> {
    let lower = text.to_lowercase();
    if let Some(index) = field.names.iter().position(|name| *name == lower) {
        return Ok(field.low + u32::try_from(index).unwrap_or(0));
    }
    match text.parse::<i64>() {
        Ok(number) if number < 0 => Err(format!("negative number ({number}) not allowed: {text}")),
        Ok(number) => Ok(u32::try_from(number).unwrap_or(u32::MAX)),
        Err(_) => {
            Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax"))
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn schedules() {
        let check = |schedule: &str, expected: &str| {
            assert_eq!(super::parse(schedule).err().unwrap_or_default(), expected, "{schedule}");
        };
        for fine in [
            "* * * * *",
            "*/5 * * * *",
            "0 0 1 1 0",
            "0-30/2,45 8-18 ? JAN-dec mon-Fri",
            "@hourly",
            "@every 1h30m",
            "@every 1.5s",
            "TZ=UTC 0 0 * * *",
        ] {
            check(fine, "");
        }
        check("", "empty spec string");
        check("* * * *", "expected exactly 5 fields, found 4: [* * * *]");
        check("60 * * * *", "end of range (60) above maximum (59): 60");
        check("* * 0 * *", "beginning of range (0) below minimum (1): 0");
        check("5-2 * * * *", "beginning of range (5) beyond end of range (2): 5-2");
        check("*/0 * * * *", "step of range should be a positive number: */0");
        check("1-2-3 * * * *", "too many hyphens: 1-2-3");
        check("1/2/3 * * * *", "too many slashes: 1/2/3");
        check("a * * * *", "failed to parse int from a: strconv.Atoi: parsing \"a\": invalid syntax");
        check("@often", "unrecognized descriptor: @often");
        check("@every x", "failed to parse duration @every x: time: invalid duration \"x\"");
    }
}
