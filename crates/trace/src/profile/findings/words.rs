//! Formats numbers for texts.

use crate::profile::json::Times;

/// A number with commas between thousands: 112,000.
pub(crate) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes in the greatest unit in which the value is at least 1: `214 MiB`, `1.5 GiB`, `17 B`.
pub(super) fn bytes(count: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = count as f64;
    let mut unit = 0;
    // A value that would be printed as 1,024 of a unit is 1 of the next unit.
    while value >= 1023.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if value < 9.95 && unit > 0 {
        format!("{value:.1} {}", UNITS[unit])
    } else {
        format!("{value:.0} {}", UNITS[unit])
    }
}

/// A share in per cent, such as `88 %`; below 1 % with one decimal.
pub(super) fn percent(share: f64) -> String {
    match share * 100.0 {
        value if value >= 0.95 || value <= 0.0 => format!("{value:.0} %"),
        value if value >= 0.05 => format!("{value:.1} %"),
        _ => "less than 0.1 %".to_owned(),
    }
}

/// A time such as `2.3 s` or `17 ms`. If tracing was most of the run: the range of likely values.
pub(super) fn time(times: &Times, interval_only: bool) -> String {
    match (times.low_s, times.high_s) {
        (Some(low), Some(high)) if interval_only => format!("between {} and {}", seconds(low), seconds(high)),
        _ => seconds(times.best_s()),
    }
}

fn seconds(value: f64) -> String {
    let (value, unit) = match value {
        v if v >= 0.9995 || v == 0.0 => (v, "s"),
        v if v >= 0.000_999_5 => (v * 1e3, "ms"),
        v => (v * 1e6, "us"),
    };
    if value >= 99.5 {
        format!("{value:.0} {unit}")
    } else {
        format!("{value:.1} {unit}")
    }
}

/// A multiple, such as `five times` or `12 times`.
pub(super) fn times_over(times: f64) -> String {
    const WORDS: [&str; 11] = [
        "no times",
        "once",
        "twice",
        "three times",
        "four times",
        "five times",
        "six times",
        "seven times",
        "eight times",
        "nine times",
        "ten times",
    ];
    let whole = times.round();
    if (times - whole).abs() < 0.05 && whole <= 10.0 {
        return WORDS[whole as usize].to_owned();
    }
    if times < 10.0 {
        format!("{times:.1} times")
    } else {
        format!("{} times", grouped(whole as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_separators_and_units() {
        assert_eq!(
            [0, 999, 1000, 112_000, 1_234_567].map(grouped),
            ["0", "999", "1,000", "112,000", "1,234,567"]
        );
        let sizes = [17, 1023, 1024, 1536, 1_048_575, 224_692_674, u64::MAX].map(bytes);
        assert_eq!(
            sizes,
            [
                "17 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 MiB", "214 MiB", "16 EiB"
            ]
        );
        assert_eq!(
            [0.88, 0.003, 1e-9, 0.0, 1.0].map(percent),
            ["88 %", "0.3 %", "less than 0.1 %", "0 %", "100 %"]
        );
        assert_eq!(
            [0.0, 2.34, 0.017, 0.000_002, 123.4].map(seconds),
            ["0.0 s", "2.3 s", "17.0 ms", "2.0 us", "123 s"]
        );
        assert_eq!(
            [5.01, 2.0, 2.5, 1234.0].map(times_over),
            ["five times", "twice", "2.5 times", "1,234 times"]
        );
    }

    #[test]
    fn a_time_is_a_range_if_tracing_was_most_of_it() {
        let times = Times {
            recorded_s: 9.0,
            low_s: Some(1.0),
            corrected_s: Some(2.0),
            high_s: Some(3.0),
        };
        assert_eq!(time(&times, false), "2.0 s");
        assert_eq!(time(&times, true), "between 1.0 s and 3.0 s");
    }
}
