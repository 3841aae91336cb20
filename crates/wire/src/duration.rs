//! Ages as people read them.

/// A span of time in the two largest units that matter: `90s`, `3m5s`, `5d3h`, `2y10d`.
///
/// A span from the near future, which clocks that disagree produce, is `0s`; one from the far future is `<invalid>`.
pub fn human_duration(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let two = |large: i64, unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{large}{unit}"),
        small => format!("{large}{unit}{small}{small_unit}"),
    };
    match seconds {
        ..=-2 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        _ if seconds < 120 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if hours < 192 => two(days, "d", hours % 24, "h"),
        _ if days < 365 * 2 => format!("{days}d"),
        _ if days < 365 * 8 => two(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_units_that_matter() {
        const M: i64 = 60;
        const H: i64 = 60 * M;
        const D: i64 = 24 * H;
        const Y: i64 = 365 * D;
        for (seconds, text) in [
            (i64::MIN, "<invalid>"),
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (70, "70s"),
            (119, "119s"),
            (2 * M, "2m"),
            (3 * M + 5, "3m5s"),
            (10 * M + 5, "10m"),
            (70 * M, "70m"),
            (3 * H - 1, "179m"),
            (3 * H, "3h"),
            (7 * H + 50 * M, "7h50m"),
            (8 * H + 50 * M, "8h"),
            (47 * H, "47h"),
            (2 * D, "2d"),
            (5 * D + 3 * H, "5d3h"),
            (8 * D, "8d"),
            (2 * Y - 1, "729d"),
            (2 * Y, "2y"),
            (2 * Y + 10 * D, "2y10d"),
            (8 * Y + 10 * D, "8y"),
            (i64::MAX, "292471208677y"),
        ] {
            assert_eq!(human_duration(seconds), text, "{seconds}");
        }
    }
}
