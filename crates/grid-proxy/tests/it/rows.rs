//! The chains of the table, with our result and that of OpenSSL.

use plimsoll_grid_proxy::{Language, MAX_CERTIFICATES, Reason};
use rustls::pki_types::CertificateDer;

use crate::make::{
    BASIC_CONSTRAINTS, DRAFT_INFORMATION, Draft, ECDSA_SHA1, EXTENDED_KEY_USAGE, FUTURE,
    ISSUER_ALTERNATIVE_NAME, KEY_USAGE, PAST, PROXY_INFORMATION, Party, SEQUENCE, SUBJECT_ALTERNATIVE_NAME,
    UNKNOWN, attribute, authority, chain, extension, name, proxy, usage, user, value,
};

/// What `openssl verify -allow_proxy_certs -purpose sslclient` answers.
pub enum Openssl {
    /// It agrees.
    Agrees,
    /// It accepts a chain that we refuse. The reason for the difference.
    Accepts(&'static str),
    /// It is not asked. The reason.
    NotAsked(&'static str),
}

pub struct Row {
    pub title: &'static str,
    /// The chain; the authority is not a part of it.
    pub chain: Vec<CertificateDer<'static>>,
    /// The certificate of the authority.
    pub authority: Party,
    /// Number of proxies, and whether one is limited; or the position of the certificate that is
    /// refused, and the reason.
    pub expected: Result<(usize, bool), (usize, Reason)>,
    pub openssl: Openssl,
}

/// The parties of most rows.
pub struct Lab {
    pub authority: Party,
    pub user: Party,
    rows: Vec<Row>,
}

/// An identifier of a policy language that nobody knows, with a policy.
fn unknown_language() -> Vec<u8> {
    let language = value(6, &[UNKNOWN]);
    value(
        SEQUENCE,
        &[&value(SEQUENCE, &[&language, &value(4, &[b"may read"])])],
    )
}

/// inheritAll, preceded by `length` and followed by `policy`, in DER.
fn inherit_all(length: &[u8], policy: &[u8]) -> Vec<u8> {
    let language = value(6, &[&[0x2b, 6, 1, 5, 5, 7, 21, 1]]);
    value(SEQUENCE, &[length, &value(SEQUENCE, &[&language, policy])])
}

pub fn all() -> Vec<Row> {
    let authority = authority("authority", None, |_| {});
    let user = user(&authority, |_| {});
    let mut lab = Lab {
        authority,
        user,
        rows: Vec::new(),
    };
    lab.accepted();
    lab.information();
    lab.names();
    lab.extensions();
    lab.issuers();
    lab.times();
    lab.chains();
    lab.rows
}

impl Lab {
    fn add(
        &mut self,
        title: &'static str,
        parties: &[&Party],
        expected: Result<(usize, bool), (usize, Reason)>,
        openssl: Openssl,
    ) {
        self.rows.push(Row {
            title,
            chain: chain(parties),
            authority: self.authority.clone(),
            expected,
            openssl,
        });
    }

    /// A chain of one changed proxy, which is refused.
    fn one(
        &mut self,
        title: &'static str,
        reason: Reason,
        openssl: Openssl,
        change: impl FnOnce(&mut Draft),
    ) {
        let user = self.user.clone();
        let changed = proxy(&user, change);
        self.add(title, &[&changed, &user], Err((0, reason)), openssl);
    }

    fn accepted(&mut self) {
        use Openssl::Agrees;
        let user = self.user.clone();
        let first = proxy(&user, |_| {});
        let second = proxy(&first, |_| {});
        let limited = proxy(&user, |draft| draft.information(None, Language::Limited));
        let below_limited = proxy(&limited, |_| {});
        let last = proxy(&user, |draft| draft.information(Some(0), Language::InheritAll));
        let one_more = proxy(&user, |draft| draft.information(Some(1), Language::InheritAll));
        let below = proxy(&one_more, |_| {});
        let plain = proxy(&user, |draft| draft.extensions.truncate(1));
        let noted = proxy(&user, |draft| draft.set(UNKNOWN, false, &[5, 0]));
        let site = authority("site authority", Some(&self.authority), |_| {});
        let site_user = crate::make::user(&site, |draft| draft.subject = name(&[(10, "Grid"), (3, "other")]));
        let site_proxy = proxy(&site_user, |_| {});
        self.add("the end entity itself", &[&user], Ok((0, false)), Agrees);
        self.add("a proxy", &[&first, &user], Ok((1, false)), Agrees);
        self.add(
            "a proxy of a proxy",
            &[&second, &first, &user],
            Ok((2, false)),
            Agrees,
        );
        self.add("a limited proxy", &[&limited, &user], Ok((1, true)), Agrees);
        self.add(
            "below a limited proxy, all are limited",
            &[&below_limited, &limited, &user],
            Ok((2, true)),
            Agrees,
        );
        self.add(
            "path length 0, none below",
            &[&last, &user],
            Ok((1, false)),
            Agrees,
        );
        self.add(
            "path length 1, one below",
            &[&below, &one_more, &user],
            Ok((2, false)),
            Agrees,
        );
        self.add("without key usage", &[&plain, &user], Ok((1, false)), Agrees);
        self.add(
            "an unknown extension that is not critical",
            &[&noted, &user],
            Ok((1, false)),
            Agrees,
        );
        self.add(
            "an intermediate authority",
            &[&site_proxy, &site_user, &site],
            Ok((1, false)),
            Agrees,
        );
    }

    fn information(&mut self) {
        use Openssl::{Accepts, Agrees};
        let user = self.user.clone();
        let length =
            |permitted| move |draft: &mut Draft| draft.information(Some(permitted), Language::InheritAll);
        let (none, one) = (proxy(&user, length(0)), proxy(&user, length(1)));
        let below_none = proxy(&none, |_| {});
        let (inner, child_of_one) = (proxy(&one, length(0)), proxy(&one, |_| {}));
        let (below_inner, third) = (proxy(&inner, |_| {}), proxy(&child_of_one, |_| {}));
        let exceeded = |permitted, found| Reason::PathLength { permitted, found };
        self.add(
            "path length 0, one below",
            &[&below_none, &none, &user],
            Err((1, exceeded(0, 1))),
            Agrees,
        );
        self.add(
            "path length 1, two below",
            &[&third, &child_of_one, &one, &user],
            Err((2, exceeded(1, 2))),
            Agrees,
        );
        self.add(
            "the smaller path length holds",
            &[&below_inner, &inner, &one, &user],
            Err((1, exceeded(0, 1))),
            Agrees,
        );
        self.one(
            "not critical",
            Reason::NotCritical,
            Accepts("it does not check this rule"),
            |draft| {
                draft.extensions[0].is_critical = false;
            },
        );
        self.one("no DER in proxyCertInfo", Reason::Information, Agrees, |draft| {
            draft.set(PROXY_INFORMATION, true, b"all rights");
        });
        self.one(
            "a negative path length",
            Reason::Information,
            Accepts("it reads -1 as no constraint"),
            |draft| draft.set(PROXY_INFORMATION, true, &inherit_all(&[2, 1, 0xff], &[])),
        );
        let leaves = "it leaves policies to the application";
        self.one(
            "an unknown policy language",
            Reason::Language,
            Accepts(leaves),
            |draft| {
                draft.set(PROXY_INFORMATION, true, &unknown_language());
            },
        );
        self.one(
            "inheritAll with a policy",
            Reason::Policy,
            Accepts(leaves),
            |draft| {
                draft.set(PROXY_INFORMATION, true, &inherit_all(&[], &value(4, &[b"none"])));
            },
        );
        self.one("independent", Reason::Independent, Accepts(leaves), |draft| {
            draft.information(None, Language::Independent);
        });
        let independent = proxy(&user, |draft| draft.information(None, Language::Independent));
        let below = proxy(&independent, |_| {});
        self.add(
            "below an independent proxy",
            &[&below, &independent, &user],
            Err((1, Reason::Independent)),
            Accepts(leaves),
        );
    }

    fn names(&mut self) {
        use Openssl::{Accepts, Agrees};
        let user = self.user.clone();
        let with = |parts: &[(u8, &str)]| [user.name.clone(), name(parts)].concat();
        for (title, subject) in [
            (
                "another common name",
                name(&[(10, "Grid"), (3, "other"), (3, "1234")]),
            ),
            ("an organisational unit is added", with(&[(11, "1234")])),
            ("two common names are added", with(&[(3, "1"), (3, "2")])),
            ("nothing is added", user.name.clone()),
            (
                "the name of the issuer is shortened",
                name(&[(10, "Grid"), (3, "1234")]),
            ),
        ] {
            self.one(title, Reason::Subject, Agrees, |draft| draft.subject = subject);
        }
        self.one(
            "a part with two attributes is added",
            Reason::Subject,
            Agrees,
            |draft| {
                let both = value(0x31, &[&attribute(3, "1"), &attribute(11, "2")]);
                draft.subject = [user.name.clone(), both].concat();
            },
        );
        self.one(
            "an empty common name is added",
            Reason::Subject,
            Accepts("it accepts an empty text"),
            |draft| draft.subject = with(&[(3, "")]),
        );
        let legacy = |text: &str| {
            proxy(&user, |draft| {
                draft.extensions.remove(0);
                draft.subject = with(&[(3, text)]);
            })
        };
        let (full, limited) = (legacy("proxy"), legacy("limited proxy"));
        self.add(
            "a legacy proxy",
            &[&full, &user],
            Err((0, Reason::Legacy)),
            Agrees,
        );
        self.add(
            "a limited legacy proxy",
            &[&limited, &user],
            Err((0, Reason::Legacy)),
            Agrees,
        );
        let below = proxy(&full, |_| {});
        self.add(
            "below a legacy proxy",
            &[&below, &full, &user],
            Err((1, Reason::Legacy)),
            Agrees,
        );
        self.one("a proxy of the draft", Reason::Draft, Agrees, |draft| {
            draft.extensions[0].identifier = DRAFT_INFORMATION.to_vec();
        });
        let other = crate::make::user(&self.authority, |draft| {
            draft.subject = name(&[(10, "Grid"), (3, "other")]);
        });
        let first = proxy(&user, |_| {});
        self.add(
            "the issuer is another user",
            &[&first, &other],
            Err((0, Reason::Issuer)),
            Agrees,
        );
        self.one("the name of another issuer", Reason::Issuer, Agrees, |draft| {
            draft.issuer.clone_from(&other.name);
            draft.subject = [other.name.clone(), name(&[(3, "1")])].concat();
        });
    }

    fn extensions(&mut self) {
        use Openssl::{Accepts, Agrees};
        // DNS:a
        let names = [0x30, 3, 0x82, 1, b'a'];
        self.one(
            "an alternative name of the subject",
            Reason::AlternativeName,
            Agrees,
            |draft| {
                draft.set(SUBJECT_ALTERNATIVE_NAME, false, &names);
            },
        );
        self.one(
            "an alternative name of the issuer",
            Reason::AlternativeName,
            Agrees,
            |draft| {
                draft.set(ISSUER_ALTERNATIVE_NAME, false, &names);
            },
        );
        self.one(
            "a proxy that is an authority",
            Reason::ProxyIsAuthority,
            Agrees,
            |draft| {
                draft.set(BASIC_CONSTRAINTS, true, &[0x30, 3, 1, 1, 0xff]);
            },
        );
        self.one(
            "the key usage keyCertSign",
            Reason::CertificateSigning,
            Accepts("it checks this rule only with -x509_strict"),
            |draft| draft.set(KEY_USAGE, true, &usage(0x84)),
        );
        self.one(
            "a key usage without signatures",
            Reason::KeyUsage,
            Agrees,
            |draft| {
                draft.set(KEY_USAGE, true, &usage(0x20));
            },
        );
        // serverAuth
        let servers = value(SEQUENCE, &[&[6, 8, 0x2b, 6, 1, 5, 5, 7, 3, 1]]);
        self.one("only for servers", Reason::Purpose, Agrees, |draft| {
            draft.set(EXTENDED_KEY_USAGE, false, &servers);
        });
        self.one(
            "an unknown critical extension",
            Reason::UnknownCritical,
            Agrees,
            |draft| {
                draft.set(UNKNOWN, true, &[5, 0]);
            },
        );
        self.one("proxyCertInfo twice", Reason::Repeated, Agrees, |draft| {
            let again = draft.extensions[0].clone();
            draft.extensions.push(again);
        });
        self.one(
            "version 1 with extensions",
            Reason::Version,
            Accepts("it checks the version only with -x509_strict"),
            |draft| draft.version = 0,
        );
        self.one("two algorithms", Reason::AlgorithmMismatch, Agrees, |draft| {
            draft.algorithms[0] = ECDSA_SHA1.to_vec();
        });
        self.one("an obsolete algorithm", Reason::Algorithm, Agrees, |draft| {
            draft.algorithms = [ECDSA_SHA1.to_vec(), ECDSA_SHA1.to_vec()];
        });
        let for_servers = crate::make::user(&self.authority, |draft| {
            draft.set(EXTENDED_KEY_USAGE, false, &servers);
        });
        let below = proxy(&for_servers, |_| {});
        self.add(
            "an end entity only for servers",
            &[&below, &for_servers],
            Err((1, Reason::Purpose)),
            Agrees,
        );
    }

    fn issuers(&mut self) {
        use Openssl::Agrees;
        let authority = self.authority.clone();
        let of_authority = proxy(&authority, |_| {});
        self.add(
            "a proxy of an authority",
            &[&of_authority, &authority],
            Err((1, Reason::IssuerIsAuthority)),
            Agrees,
        );
        let silent = crate::make::user(&authority, |draft| draft.set(KEY_USAGE, true, &usage(0x20)));
        let below = proxy(&silent, |_| {});
        self.add(
            "an end entity that may not sign",
            &[&below, &silent],
            Err((1, Reason::IssuerKeyUsage)),
            Agrees,
        );
        let user = self.user.clone();
        let first = proxy(&user, |draft| draft.set(KEY_USAGE, true, &usage(0x20)));
        let second = proxy(&first, |_| {});
        self.add(
            "a proxy that may not sign",
            &[&second, &first, &user],
            Err((1, Reason::IssuerKeyUsage)),
            Agrees,
        );
        let stranger = crate::make::user(&authority, |_| {});
        self.one("signed by another key", Reason::Signature, Agrees, |draft| {
            draft.signer = stranger.key;
        });
        self.one("a damaged signature", Reason::Signature, Agrees, |draft| {
            draft.damages_signature = true;
        });
        let namesake = crate::make::authority("authority", None, |_| {});
        let unknown = crate::make::authority("unknown", None, |_| {});
        for (title, issuer, reason) in [
            ("an unknown authority", unknown, Reason::UnknownAuthority),
            ("a namesake of the authority", namesake, Reason::Signature),
        ] {
            let foreign = crate::make::user(&issuer, |_| {});
            let below = proxy(&foreign, |_| {});
            self.add(title, &[&below, &foreign], Err((1, reason)), Agrees);
        }
    }

    fn times(&mut self) {
        use Openssl::Agrees;
        self.one("an expired proxy", Reason::Expired, Agrees, |draft| {
            draft.validity = PAST;
        });
        self.one("a proxy of tomorrow", Reason::NotValidYet, Agrees, |draft| {
            draft.validity = FUTURE;
        });
        let user = self.user.clone();
        let ended = proxy(&user, |draft| draft.validity = PAST);
        let below = proxy(&ended, |_| {});
        self.add(
            "below an expired proxy",
            &[&below, &ended, &user],
            Err((1, Reason::Expired)),
            Agrees,
        );
        for (title, validity, reason) in [
            ("an expired end entity", PAST, Reason::Expired),
            ("an end entity of tomorrow", FUTURE, Reason::NotValidYet),
        ] {
            let issuer = crate::make::user(&self.authority, |draft| draft.validity = validity);
            let below = proxy(&issuer, |_| {});
            self.add(title, &[&below, &issuer], Err((1, reason)), Agrees);
        }
        let old = authority("old", None, |draft| draft.validity = PAST);
        let issuer = crate::make::user(&old, |_| {});
        let below = proxy(&issuer, |_| {});
        self.rows.push(Row {
            title: "an expired authority",
            chain: chain(&[&below, &issuer]),
            authority: old,
            expected: Err((1, Reason::StaleAuthority)),
            openssl: Agrees,
        });
    }

    fn chains(&mut self) {
        use Openssl::{Accepts, Agrees, NotAsked};
        let user = self.user.clone();
        let first = proxy(&user, |_| {});
        let second = proxy(&first, |_| {});
        self.add(
            "without the end entity",
            &[&second, &first],
            Err((1, Reason::NoEndEntity)),
            Agrees,
        );
        self.add(
            "not in order",
            &[&second, &user, &first],
            Err((0, Reason::Issuer)),
            Accepts("it sorts the certificates"),
        );
        let mut parties = vec![user.clone()];
        for _ in 0..MAX_CERTIFICATES - 1 {
            parties.insert(0, proxy(&parties[0], |_| {}));
        }
        let longest: Vec<&Party> = parties.iter().collect();
        self.add(
            "the longest chain",
            &longest,
            Ok((MAX_CERTIFICATES - 1, false)),
            Agrees,
        );
        let last = proxy(&parties[0], |_| {});
        let longer: Vec<&Party> = std::iter::once(&last).chain(&parties).collect();
        self.add(
            "a longer chain",
            &longer,
            Err((MAX_CERTIFICATES, Reason::TooLong)),
            Accepts("it accepts 100 certificates"),
        );
        self.one(
            "a large certificate",
            Reason::TooLarge,
            Accepts("it has no limit"),
            |draft| {
                draft.extensions.push(extension(UNKNOWN, false, &vec![0; 70_000]));
            },
        );
        self.add(
            "no certificate",
            &[],
            Err((0, Reason::Missing)),
            NotAsked("it needs a file"),
        );
        let mut trailing = chain(&[&first, &user]);
        trailing[0] = [trailing[0].as_ref(), &[0]].concat().into();
        let garbage = vec![CertificateDer::from(vec![0x30, 0x80, 1, 2, 3])];
        for (title, chain) in [
            ("a byte after the certificate", trailing),
            ("no certificate in DER", garbage),
        ] {
            self.rows.push(Row {
                title,
                chain,
                authority: self.authority.clone(),
                expected: Err((0, Reason::Malformed)),
                openssl: NotAsked("its PEM reader refuses the file, or ignores the byte"),
            });
        }
    }
}
