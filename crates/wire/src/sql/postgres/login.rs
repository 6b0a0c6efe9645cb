//! Password authentication of `PostgreSQL`.

use fallible_iterator::FallibleIterator;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::backend::Message;
use postgres_protocol::message::frontend;

use super::{nonsense, put};
use crate::sql::session::Common;
use crate::sql::{Login, SqlProtocolError};

/// Maximum number of rounds of a password's hash. The server chooses the number, and the client
/// computes them (the default, 4096, takes about a millisecond).
const MAX_ROUNDS: u32 = 1_000_000;

enum Scram {
    First(ScramSha256),
    Final(ScramSha256),
}

/// The client's part of a login.
pub(super) struct Proof {
    login: Login,
    scram: Option<Scram>,
}

impl Proof {
    pub(super) fn new(login: Login) -> Self {
        Self { login, scram: None }
    }

    pub(super) fn login(&self) -> &Login {
        &self.login
    }

    fn password(&self) -> Result<&[u8], SqlProtocolError> {
        let password = self.login.password.as_deref().ok_or_else(|| {
            let user = &self.login.user;
            SqlProtocolError::Login(format!(
                "the server requests the password of {user}, which is missing"
            ))
        })?;
        Ok(password.as_bytes())
    }

    /// Responds to an authentication message of the server.
    pub(super) fn answer(&mut self, message: &Message, common: &mut Common) -> Result<(), SqlProtocolError> {
        let method = match message {
            // With SCRAM the server must prove that it knows the password, too.
            Message::AuthenticationOk if self.scram.is_none() => return Ok(()),
            Message::AuthenticationCleartextPassword => {
                let password = self.password()?;
                return put(common, |buffer| frontend::password_message(password, buffer));
            }
            Message::AuthenticationMd5Password(body) => {
                let hash = md5_hash(self.login.user.as_bytes(), self.password()?, body.salt());
                return put(common, |buffer| {
                    frontend::password_message(hash.as_bytes(), buffer)
                });
            }
            Message::AuthenticationSasl(body) => {
                let offered = body.mechanisms().any(|name| Ok(name == SCRAM_SHA_256));
                if offered.map_err(|_| nonsense("invalid list of authentication methods"))? {
                    return self.scram_first(common);
                }
                "SASL without SCRAM-SHA-256"
            }
            Message::AuthenticationSaslContinue(body) => return self.scram_answer(body.data(), common),
            Message::AuthenticationSaslFinal(body) => return self.scram_end(body.data()),
            Message::AuthenticationGss => "GSSAPI",
            Message::AuthenticationKerberosV5 => "Kerberos V5",
            Message::AuthenticationSspi => "SSPI",
            _ => return Err(nonsense("unexpected message during the login")),
        };
        Err(SqlProtocolError::Login(format!(
            "the server requests {method}: set the method of the user in pg_hba.conf to scram-sha-256, md5, \
             password or trust"
        )))
    }

    fn scram_first(&mut self, common: &mut Common) -> Result<(), SqlProtocolError> {
        let scram = ScramSha256::new(self.password()?, ChannelBinding::unsupported());
        put(common, |buffer| {
            frontend::sasl_initial_response(SCRAM_SHA_256, scram.message(), buffer)
        })?;
        self.scram = Some(Scram::First(scram));
        Ok(())
    }

    fn scram_answer(&mut self, data: &[u8], common: &mut Common) -> Result<(), SqlProtocolError> {
        let Some(Scram::First(mut scram)) = self.scram.take() else {
            return Err(nonsense("unexpected SCRAM message"));
        };
        let rounds = data.rsplit(|byte| *byte == b',').find_map(|part| {
            std::str::from_utf8(part.strip_prefix(b"i=")?)
                .ok()?
                .parse::<u32>()
                .ok()
        });
        if rounds.is_none_or(|rounds| rounds > MAX_ROUNDS) {
            return Err(nonsense(
                "SCRAM without a number of rounds, or with more than 1,000,000",
            ));
        }
        scram
            .update(data)
            .map_err(|_| nonsense("invalid SCRAM message"))?;
        put(common, |buffer| frontend::sasl_response(scram.message(), buffer))?;
        self.scram = Some(Scram::Final(scram));
        Ok(())
    }

    fn scram_end(&mut self, data: &[u8]) -> Result<(), SqlProtocolError> {
        let Some(Scram::Final(mut scram)) = self.scram.take() else {
            return Err(nonsense("unexpected SCRAM message"));
        };
        scram.finish(data).map_err(|_| {
            SqlProtocolError::Login(
                "the server did not prove that it knows the password: check the host and the password"
                    .to_owned(),
            )
        })
    }
}
