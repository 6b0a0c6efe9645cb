//! Dates in the formats of HTTP headers (RFC 9110, 5.6.7) and of databases.

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// A date and time in UTC.
struct Civil {
    year: u64,
    /// 0 to 11.
    month: usize,
    day: u64,
    /// Hour, minute, second.
    time: [u64; 3],
}

/// Converts seconds since 1970 (civil-from-days by H. Hinnant).
fn civil(seconds: u64) -> Civil {
    let (days, time) = (seconds / 86_400, seconds % 86_400);
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let month = (month_from_march + 2) % 12;
    Civil {
        year: year_of_era + era * 400 + u64::from(month < 2),
        month: month as usize,
        day: of_year - (153 * month_from_march + 2) / 5 + 1,
        time: [time / 3600, time / 60 % 60, time % 60],
    }
}

/// The HTTP date for a number of seconds since 1970.
pub(crate) fn date(seconds: u64) -> String {
    let Civil {
        year,
        month,
        day,
        time: [hour, minute, second],
    } = civil(seconds);
    let name = DAYS[(seconds / 86_400 % 7) as usize];
    let month = MONTHS[month];
    format!("{name}, {day:02} {month} {year} {hour:02}:{minute:02}:{second:02} GMT")
}

/// The same time in the format of databases: `2024-01-02 03:04:05`.
pub(crate) fn timestamp(seconds: u64) -> String {
    let Civil {
        year,
        month,
        day,
        time: [hour, minute, second],
    } = civil(seconds);
    let month = month + 1;
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// Seconds since 1970 of a date in the format of [`date`] (days-from-civil by H. Hinnant). `None`
/// for another format and for dates before 1970. The day of the week is ignored, as is a suffix
/// after a semicolon, which old proxies add.
pub(crate) fn parse_date(text: &str) -> Option<u64> {
    let text = text.split(';').next()?.trim();
    let mut words = text.split_once(", ")?.1.split(' ');
    let day: u64 = words.next()?.parse().ok().filter(|day| (1..=31).contains(day))?;
    let name = words.next()?;
    let month = MONTHS.iter().position(|month| *month == name)? as u64 + 1;
    let year: u64 = words
        .next()?
        .parse()
        .ok()
        .filter(|year| (1970..=9999).contains(year))?;
    let mut time = words.next()?.split(':').map(|part| part.parse::<u64>().ok());
    let (hour, minute, second) = (time.next()??, time.next()??, time.next()??);
    if words.next()? != "GMT" || words.next().is_some() || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let from_march = (month + 9) % 12;
    let year = year - u64::from(month <= 2);
    let (era, of_era) = (year / 400, year % 400);
    let of_year = (153 * from_march + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    Some((days - 719_468) * 86_400 + hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_become_http_dates_and_timestamps() {
        assert_eq!(date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT"); // RFC 9110, 5.6.7
        assert_eq!(date(951_782_400), "Tue, 29 Feb 2000 00:00:00 GMT");
        assert_eq!(date(1_795_226_400), "Sat, 21 Nov 2026 02:00:00 GMT");
        assert_eq!(timestamp(1_795_226_400), "2026-11-21 02:00:00");
    }

    #[test]
    fn http_dates_are_parsed_and_other_formats_rejected() {
        for seconds in (0..4_000_000_000).step_by(12_345_677) {
            assert_eq!(parse_date(&date(seconds)), Some(seconds));
        }
        assert_eq!(
            parse_date("Sun, 06 Nov 1994 08:49:37 GMT; length=7"),
            Some(784_111_777)
        );
        for wrong in [
            "",
            "now",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49 GMT",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1969 08:49:37 GMT",
            "Sun, 99 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 99999999999999999999 08:49:37 GMT",
        ] {
            assert_eq!(parse_date(wrong), None, "{wrong}");
        }
    }
}
