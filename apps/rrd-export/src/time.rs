//! Moments and lengths of time as people write them.
//!
//! ```text
//!   moment = base [offset] | offset            -1d   yesterday+6h   2018-10-28 14:30   1540684800
//!   base   = now | today | midnight | yesterday | tomorrow | end | date | epoch
//!   offset = jiff's spans: 90m, -1d, +2h30m, "3 days ago"
//! ```
//!
//! Dates without a zone are in the local one (`TZ`), as rrdtool has it; `yesterday` begins at midnight there, also
//! on a day of 23 hours.

use jiff::civil::{Date, DateTime};
use jiff::{SignedDuration, Span, Timestamp, Zoned};

/// A moment in seconds since the epoch. `end` is what `end` stands for, if anything.
///
/// # Errors
/// It is none; the text says what would be.
pub fn moment(text: &str, now: &Zoned, end: Option<i64>) -> Result<i64, String> {
    let text = text.trim();
    let parsed = plain(text, now, end).or_else(|| with_offset(text, now, end));
    parsed.map(|zoned| zoned.timestamp().as_second()).ok_or_else(|| {
        format!(
            "{text:?} is no moment: try 2018-10-28, '2018-10-28 14:30', yesterday, -1d, yesterday+6h, \
             '2 days ago' or seconds since the epoch"
        )
    })
}

/// A length of time in seconds: `300`, `5m`, `1h`.
///
/// # Errors
/// It is none, or no positive number of seconds.
pub fn seconds(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is no length of time: try 300, 5m, 1h or 1d");
    let seconds = match text.parse::<u64>() {
        Ok(seconds) => seconds,
        Err(_) => {
            // Days are 24 hours here: a resolution has no place in the calendar.
            let span: Span = text.parse().map_err(|_| wrong())?;
            let length = span.to_duration(jiff::SpanRelativeTo::days_are_24_hours());
            let length: SignedDuration = length.map_err(|_| wrong())?;
            u64::try_from(length.as_secs()).map_err(|_| wrong())?
        }
    };
    if seconds == 0 { Err(wrong()) } else { Ok(seconds) }
}

fn plain(text: &str, now: &Zoned, end: Option<i64>) -> Option<Zoned> {
    let zone = now.time_zone();
    let day = |zoned: Zoned| zoned.start_of_day().ok();
    match text {
        "now" => return Some(now.clone()),
        "today" | "midnight" => return day(now.clone()),
        "yesterday" => return day(now.yesterday().ok()?),
        "tomorrow" => return day(now.tomorrow().ok()?),
        "end" => return Some(Timestamp::from_second(end?).ok()?.to_zoned(zone.clone())),
        _ => {}
    }
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    // Eight digits are a date if they can be one, as rrdtool has it.
    if digits
        && text.len() == 8
        && let Ok(date) = Date::strptime("%Y%m%d", text)
    {
        return date.to_zoned(zone.clone()).ok();
    }
    let epoch = text.strip_prefix('@').unwrap_or(text);
    if let Ok(second) = epoch.parse::<i64>()
        && (digits || epoch.len() < text.len())
    {
        return Some(Timestamp::from_second(second).ok()?.to_zoned(zone.clone()));
    }
    if let Ok(zoned) = text.parse::<Zoned>() {
        return Some(zoned);
    }
    if let Ok(timestamp) = text.parse::<Timestamp>() {
        return Some(timestamp.to_zoned(zone.clone()));
    }
    text.parse::<DateTime>().ok()?.to_zoned(zone.clone()).ok()
}

fn with_offset(text: &str, now: &Zoned, end: Option<i64>) -> Option<Zoned> {
    let (base, offset) = if text.starts_with(['-', '+']) || text.ends_with("ago") {
        (now.clone(), text)
    } else {
        // The last sign begins the offset: a date has some of its own.
        let at = text.rfind(['-', '+'])?;
        (plain(text[..at].trim(), now, end)?, &text[at..])
    };
    let span: Span = offset.trim_start_matches('+').parse().ok()?;
    base.checked_add(span).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Result<i64, String> {
        // A Sunday on which Berlin's day had 25 hours.
        let now: Zoned = "2018-10-28T12:00:00+01:00[Europe/Berlin]".parse().unwrap();
        moment(text, &now, Some(1_540_000_000))
    }

    #[test]
    fn moments() {
        let berlin = |text: &str| -> i64 {
            let civil: DateTime = text.parse().unwrap();
            civil.in_tz("Europe/Berlin").unwrap().timestamp().as_second()
        };
        for (text, expected) in [
            ("now", berlin("2018-10-28T12:00")),
            ("today", berlin("2018-10-28T00:00")),
            ("yesterday", berlin("2018-10-27T00:00")),
            ("tomorrow", berlin("2018-10-29T00:00")),
            // A day in the calendar, not 24 hours.
            ("-1d", berlin("2018-10-27T12:00")),
            ("2 hours ago", berlin("2018-10-28T10:00")),
            ("-2h30m", berlin("2018-10-28T09:30")),
            ("now-90m", berlin("2018-10-28T10:30")),
            ("yesterday+6h", berlin("2018-10-27T06:00")),
            ("end-1h", 1_539_996_400),
            ("1540684800", 1_540_684_800),
            ("@86400", 86_400),
            ("0", 0),
            ("20181026", berlin("2018-10-26T00:00")),
            ("2018-10-26", berlin("2018-10-26T00:00")),
            ("2018-10-26 14:30", berlin("2018-10-26T14:30")),
            ("2018-10-26T14:30:05", berlin("2018-10-26T14:30:05")),
            ("2018-10-26-1d", berlin("2018-10-25T00:00")),
            ("2018-10-26T12:00:00Z", 1_540_555_200),
            ("2018-10-26T12:00:00-04:00", 1_540_569_600),
        ] {
            assert_eq!(at(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn no_moments() {
        for text in ["", "soon", "2018-13-01", "yesterday+", "1d2", "--1d", "99999999999999999"] {
            assert!(at(text).is_err_and(|error| error.contains("is no moment")), "{text}");
        }
        let now = Zoned::now();
        assert!(moment("end-1d", &now, None).is_err());
    }

    #[test]
    fn lengths() {
        assert_eq!(seconds("300"), Ok(300));
        assert_eq!(seconds("5m"), Ok(300));
        assert_eq!(seconds("1d"), Ok(86_400));
        for text in ["", "0", "-5m", "fast", "1mo"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
