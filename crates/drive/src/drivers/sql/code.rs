//! Codes of the errors of database servers, for the column `code`.

use std::borrow::Cow;

use plimsoll_wire::sql::Refusal;

/// The code of an error: a short text for a common error, otherwise its SQLSTATE. `number`
/// distinguishes errors for which `MariaDB` uses the same SQLSTATE.
pub(super) fn code(refusal: &Refusal) -> Cow<'static, str> {
    let known = of_number(refusal.number).or_else(|| of_state(&refusal.code));
    match known {
        Some(known) => Cow::Borrowed(known),
        // The dictionary keeps every code for the whole run: a server must not add arbitrary texts.
        None if refusal.code.len() == 5 && refusal.code.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
            Cow::Owned(format!("SQLSTATE {}", refusal.code))
        }
        None => Cow::Borrowed("SQLSTATE unknown"),
    }
}

/// The code of a login that was refused.
pub(super) fn login_code(refusal: &Refusal) -> Cow<'static, str> {
    match (refusal.number, refusal.code.as_str()) {
        // The user may not use the database, the host may not log in, or the host failed too often.
        // In every case the login is refused.
        (1044 | 1045 | 1129 | 1130 | 1698, _) | (_, "28000" | "28P01") => Cow::Borrowed("login refused"),
        _ => code(refusal),
    }
}

/// Codes of error numbers of `MariaDB` whose SQLSTATE is not specific enough.
fn of_number(number: u16) -> Option<&'static str> {
    Some(match number {
        1040 | 1203 | 1226 => "too many connections",
        1044 | 1142 | 1143 | 1227 | 1370 => "permission denied",
        1045 | 1129 | 1130 | 1698 => "login refused",
        1049 => "no such database",
        1053 | 1079 => "admin shutdown",
        1064 | 1065 | 1149 => "syntax error",
        1205 => "lock timeout",
        1213 => "deadlock",
        1290 => "read-only",
        1305 | 1128 => "no such function",
        1317 | 1969 | 3024 => "query cancelled",
        1927 => "connection killed",
        _ => return None,
    })
}

/// Codes of SQLSTATE: those of appendix A of the documentation of `PostgreSQL`, and `MariaDB`'s own
/// (42S..., 70100, 08S01).
fn of_state(state: &str) -> Option<&'static str> {
    Some(match state {
        "42601" => "syntax error",
        "42P01" | "42S02" => "no such table",
        "42703" | "42S22" => "no such column",
        "42883" => "no such function",
        "3D000" => "no such database",
        "42501" => "permission denied",
        "28000" | "28P01" => "login refused",
        "53300" | "08004" => "too many connections",
        "57P01" => "admin shutdown",
        "57P02" => "crash shutdown",
        "57P03" => "cannot connect now",
        "57P05" => "idle too long",
        "57014" | "70100" => "query cancelled",
        "40P01" => "deadlock",
        "40001" => "serialization failure",
        "55P03" => "lock timeout",
        "25006" => "read-only",
        "0A000" => "not supported",
        "53100" => "disk full",
        "53200" => "out of memory",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(state: &str, number: u16) -> Refusal {
        Refusal {
            code: state.to_owned(),
            number,
            message: String::new(),
        }
    }

    #[test]
    fn common_errors_have_a_text_and_others_their_sqlstate() {
        for (state, number, expected) in [
            ("42601", 0, "syntax error"),
            ("42000", 1064, "syntax error"),
            ("42000", 1142, "permission denied"),
            ("42000", 1234, "SQLSTATE 42000"),
            ("42S02", 1146, "no such table"),
            ("HY000", 1205, "lock timeout"),
            ("40001", 1213, "deadlock"),
            ("40001", 0, "serialization failure"),
            ("22012", 0, "SQLSTATE 22012"),
            ("", 0, "SQLSTATE unknown"),
            ("a b\n!", 0, "SQLSTATE unknown"),
        ] {
            assert_eq!(code(&refusal(state, number)), expected);
        }
        assert_eq!(code(&refusal("42000", 1044)), "permission denied");
        assert_eq!(login_code(&refusal("42000", 1044)), "login refused");
        assert_eq!(login_code(&refusal("28P01", 0)), "login refused");
        assert_eq!(login_code(&refusal("53300", 0)), "too many connections");
    }
}
