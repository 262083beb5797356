"""Names and loan words that hibari's dictionary and its network for unknown words read wrongly.

The table is in IPA as Americans say them, `r` where they say one. A word in lower case is also read
with a capital; a name is not read without. What the network says of words that are in no table is
corrected where it is often wrong: it has learned from espeak-ng.
"""

from __future__ import annotations

import re

_TABLE = """
Achebe əˈtʃeɪbeɪ, Adichie əˈdiːtʃi, Ahmadinejad ɑːmədiːˈnɛʒɑːd, Allende ɑːˈjɛndeɪ, Anais
ɑːnɑːˈiːs, Anaïs ɑːnɑːˈiːs, Aoife ˈiːfə, Aramis ˈærəmɪs, Atatürk ˈætətɜːrk, Athos ˈæθɒs, Aung
ˈaʊŋ, Aurélie ɔːreɪˈliː, açaí ˌɑːsaɪˈiː, baklava ˈbɑːkləvɑː, Baudelaire boʊdəˈlɛr, Beauchamp
ˈbiːtʃəm, Beauvoir boʊˈvwɑːr, Beethoven ˈbeɪtoʊvən, Belvoir ˈbiːvər, Benoit bənˈwɑː, Benoît
bənˈwɑː, Berlioz ˈbɛrlioʊz, Beyonce biˈɒnseɪ, Beyoncé biˈɒnseɪ, Bhagavad ˈbʌɡəvəd, Bizet
biːˈzeɪ, Bjork ˈbjɜːrk, Boccaccio boʊˈkɑːtʃioʊ, Borges ˈbɔːrhɛs, bourgeois ˈbʊrʒwɑː, Brougham
ˈbruːm, Brueghel ˈbrɔɪɡəl, Brâncuși brɑːnˈkuːʃ, Bulgakov bʊlˈɡɑːkɒf, Callaghan ˈkæləhən, Camus
kæˈmuː, Caoimhe ˈkiːvə, Ceausescu tʃaʊˈʃɛsku, Cersei ˈsɜːrsi, Cervantes sərˈvæntiːz, Cezanne
seɪˈzæn, champignon ʃæmpɪnˈjoʊn, Chekhov ˈtʃɛkɒf, Chiwetel ˈtʃuːətɛl, Chloe ˈkloʊi, Chloë
ˈkloʊi, Cholmondeley ˈtʃʌmli, Chopin ˈʃoʊpæn, château ʃæˈtoʊ, châteaux ʃæˈtoʊz, ciabatta
tʃəˈbɑːtə, Ciaran ˈkɪrən, Ciarán ˈkɪrən, cliché kliːˈʃeɪ, Coetzee kʊtˈsiː, Cointreau ˈkwɒntroʊ,
Cosette koʊˈzɛt, Cowper ˈkuːpər, crème ˈkrɛm, Cusco ˈkuːskoʊ, Cyrano ˈsɪrənoʊ, Cézanne seɪˈzæn,
d'Artagnan dɑːrtænˈjɒn, d'oeuvre ˈdɜːrv, d'oeuvres ˈdɜːrvz, d'état deɪˈtɑː, d'être ˈdɛtrə,
Daenerys dəˈnɛrɪs, Dafydd ˈdævɪð, Dalai ˈdɑːlaɪ, Dantès dɒnˈtɛs, Debussy dɛbjuːˈsiː, Degas
dəˈɡɑː, Djokovic ˈdʒoʊkəvɪtʃ, Donne ˈdʌn, Doppelgänger ˈdɒpəlɡɛŋər, Dostoevsky dɒstəˈjɛfski,
Dostoyevsky dɒstəˈjɛfski, Dougherty ˈdɒhərti, Dvorak ˈdvɔːrʒæk, Dvořák ˈdvɔːrʒɑːk, Dáil ˈdɔɪl,
déjà deɪˈʒɑː, Eilidh ˈeɪli, Ejiofor ˈɛdʒioʊfɔːr, entrée ˈɒntreɪ, Eoghan ˈoʊɪn, Eoin ˈoʊɪn, Eowyn
ˈeɪoʊwɪn, Erdogan ˈɛrdoʊɑːn, Erdoğan ˈɛrdoʊɑːn, Etienne eɪˈtjɛn, Featherstonehaugh ˈfænʃɔː, feng
ˈfʌŋ, fiancé fiːɒnˈseɪ, fiancée fiːɒnˈseɪ, Flaubert floʊˈbɛr, Foucault fuːˈkoʊ, Francois
frɒnˈswɑː, François frɒnˈswɑː, Françoise frɒnˈswɑːz, Freud ˈfrɔɪd, Gaddafi ɡəˈdɑːfi, Galadriel
ɡəˈlædriəl, Gallagher ˈɡæləhər, Gandhi ˈɡɑːndi, Gauguin ɡoʊˈɡæn, Gdańsk ɡəˈdænsk, Geoghegan
ˈɡeɪɡən, Gianna ˈdʒɑːnə, Gide ˈʒiːd, Giovanni dʒoʊˈvɑːni, Giulia ˈdʒuːliə, Giuseppe dʒuˈsɛpi,
Givenchy ʒɪvɒnˈʃiː, Goethe ˈɡɜːtə, Gogh ˈɡoʊ, Gogol ˈɡoʊɡəl, Gorbachev ˈɡɔːrbətʃɒf, Grainne
ˈɡrɔːnjə, Gráinne ˈɡrɔːnjə, Guillaume ɡiˈjoʊm, Guillermo ɡiˈjɛrmoʊ, gyoza ɡiˈoʊzə, gyro ˈjɪroʊ,
Győr ˈdʒɜːr, Göteborg ˈjɜːtəbɔːrɡ, Hagia ˈhaɪə, Hanh ˈhɑːn, Hercule ɛrˈkjuːl, Hermione
hərˈmaɪəni, Hermès ɛrˈmɛz, hors ˈɔːr, Houghton ˈhoʊtən, Huawei ˈhwɑːweɪ, hummus ˈhʊməs, Hyundai
ˈhʌndeɪ, Hélène eɪˈlɛn, hôtel oʊˈtɛl, Iași ˈjɑːʃ, Ieuan ˈjaɪən, Ioan ˈjoʊən, Ishiguro ɪʃɪˈɡʊroʊ,
Jacques ˈʒɑːk, Jaime ˈhaɪmeɪ, jalapeno hɑːləˈpeɪnjoʊ, jalapeño hɑːləˈpeɪnjoʊ, Janáček
ˈjɑːnətʃɛk, Javert ʒəˈvɛr, Javier hɑːviˈɛr, Joao ʒuˈaʊ, Joaquin wɑːˈkiːn, Jorge ˈhɔːrheɪ, Jose
hoʊˈzeɪ, José hoʊˈzeɪ, João ʒuˈaʊ, Jørgen ˈjɜːrɡən, Kafka ˈkɑːfkə, Kanye ˈkɑːnjeɪ, Karenina
kəˈrɛnɪnə, Khamenei ˈxɑːmeɪni, Khayyam kaɪˈjɑːm, Khrushchev ˈkruːʃtʃɛf, Kierkegaard ˈkɪrkəɡɑːrd,
Knausgaard kəˈnaʊsɡɑːrd, Kodály ˈkoʊdaɪ, Krakow ˈkrɑːkaʊ, Kraków ˈkrɑːkuːf, Krzysztof ˈkʃɪʃtɒf,
Krzyzewski ʃəˈʃɛfski, kubectl ˈkjuːbkənˌtroʊl, Kubernetes kuːbərˈnɛtiːz, Kyi ˈtʃiː, Kyoto
kiˈoʊtoʊ, Lautrec loʊˈtrɛk, Lestrade lɛˈstrɑːd, Liège liˈɛʒ, Ljubljana luːˈbljɑːnə, Llosa
ˈjoʊsə, Lodz ˈwuːtʃ, Louboutin luːbuːˈtæn, Luigi luˈiːdʒi, Lviv ləˈviːv, Lyon liˈoʊn, Maastricht
ˈmɑːstrɪkt, Mackinac ˈmækɪnɔː, Maeve ˈmeɪv, Magdalen ˈmɔːdlɪn, Mahabharata məhɑːˈbɑːrətə,
Maigret meɪˈɡreɪ, Manet mæˈneɪ, Marylebone ˈmɑːrləboʊn, Matisse məˈtiːs, Maugham ˈmɔːm, Mbappe
əmˈbɑːpeɪ, Mbappé əmˈbɑːpeɪ, Mbeki əmˈbɛki, Meabh ˈmeɪv, Mhairi ˈvɑːri, Milosevic mɪˈloʊsəvɪtʃ,
Milosz ˈmiːwɒʃ, Miyazaki mijəˈzɑːki, Miłosz ˈmiːwɒʃ, Modigliani moʊdɪlˈjɑːni, Molière moʊlˈjɛr,
Monet moʊˈneɪ, Moriarty mɒriˈɑːrti, Mozart ˈmoʊtsɑːrt, Muammar ˈmuːəmɑːr, Murakami mʊrəˈkɑːmi,
München ˈmʊnʃən, Nabokov nəˈboʊkɒf, naïve nɑːˈiːv, naïveté nɑːiːvˈteɪ, Ngaio ˈnaɪoʊ, nginx
ˈɛndʒɪnˌɛks, Nguyen ˈwɪn, Nguyễn ˈwɪn, Niamh ˈniːv, Nkosi əŋˈkoʊsi, Nkrumah ənˈkruːmə, Nîmes
ˈniːm, O'Shaughnessy oʊˈʃɔːnəsi, oeuvre ˈɜːrvrə, Oisin ˈʌʃiːn, Oisín ˈʌʃiːn, Orbán ˈɔːrbɑːn,
Orlaith ˈɔːrlə, Padraig ˈpɔːdrɪɡ, paella pɑːˈɛlə, Pamuk pɑːˈmʊk, papier pæpˈjeɪ, Paulo ˈpaʊloʊ,
Pepys ˈpiːps, Peugeot ˈpɜːʒoʊ, Phnom pəˈnɒm, Plzeň ˈpʌlzən, Poirot pwɑːˈroʊ, Porsche ˈpɔːrʃə,
Porthos ˈpɔːrtɒs, Poulenc puːˈlɛŋk, première prɪˈmɪr, Prokofiev prəˈkoʊfiɛf, protégé ˈproʊtəʒeɪ,
Proust ˈpruːst, Pugh ˈpjuː, Pyongyang ˈpjɒŋjæŋ, Pádraig ˈpɔːdrɪɡ, Quixote kiˈhoʊti, Qur'an
kʊˈrɑːn, Rabindranath rəˈbɪndrənɑːθ, Rachmaninoff rækˈmænɪnɒf, raison reɪˈzoʊn, Raskolnikov
rəˈskɒlnɪkɒf, Ravel rəˈvɛl, Reims ˈræns, Renault rəˈnoʊ, Rene rəˈneɪ, Renee rəˈneɪ, resumé
ˈrɛzəˌmeɪ, Rhys ˈriːs, Richelieu ˈriːʃəljuː, Rihanna riˈænə, Rilke ˈrɪlkə, Rimbaud ræmˈboʊ,
Roisin roʊˈʃiːn, Rousseau ruːˈsoʊ, résumé ˈrɛzəˌmeɪ, résumés ˈrɛzəˌmeɪz, Róisín roʊˈʃiːn,
Röntgen ˈrɛntɡən, Saoirse ˈsɜːrʃə, Sartre ˈsɑːrtrə, Satie sɑːˈtiː, Sauron ˈsaʊrɒn, Scheveningen
ˈskeɪvənɪŋən, Schopenhauer ˈʃoʊpənhaʊər, Schroedinger ˈʃrɜːdɪŋər, Schumann ˈʃuːmɑːn, Sean ˈʃɔːn,
Seurat səˈrɑː, Seán ˈʃɔːn, señor seɪnˈjɔːr, shui ˈʃweɪ, Sinead ʃɪˈneɪd, Sinéad ʃɪˈneɪd, Siobhan
ʃɪˈvɔːn, Siobhán ʃɪˈvɔːn, Siân ˈʃɑːn, Smaug ˈsmaʊɡ, Solzhenitsyn soʊlʒəˈniːtsɪn, Southwark
ˈsʌðərk, Soyinka ʃɔɪˈɪŋkə, SQLite ˈɛskjuːˌlaɪt, Szymborska ʃɪmˈbɔːrskə, Søren ˈsɜːrən, Tadhg
ˈtaɪɡ, Tagore təˈɡɔːr, Tchaikovsky tʃaɪˈkɒfski, Thich ˈtɪk, Thiruvananthapuram
ˌtɪruvənɒntəˈpuːrəm, Thérèse təˈrɛz, touché tuːˈʃeɪ, Tromsø ˈtrɒmsɜː, Tsinghua ˈtʃɪŋhwɑː,
Turgenev tʊrˈɡeɪnjɛf, Ubuntu ʊˈbʊntuː, Upanishads uːˈpænɪʃædz, Valjean vælˈʒɒn, Vaughan ˈvɔːn,
Verdi ˈvɛrdi, Verlaine vɛrˈlɛn, Versace vərˈsɑːtʃi, victualler ˈvɪtələr, Voldemort ˈvoʊldəmɔːr,
Václav ˈvɑːtslɑːf, Wagner ˈvɑːɡnər, Waikato ˈwaɪkætoʊ, Walesa vəˈwɛnsə, Wałęsa vəˈwɛnsə,
Whangarei fɒŋəˈreɪ, Willamette wɪˈlæmɪt, Wittgenstein ˈvɪtɡənʃtaɪn, Wojciech ˈvɔɪtʃɛk, Wroclaw
ˈvrɒtswɑːf, Wrocław ˈvrɒtswɑːf, Xiaomi ˈʃaʊmi, Xiaoping ʃaʊˈpɪŋ, Yeats ˈjeɪts, Yosemite
joʊˈsɛmɪti, Zbigniew ˈzbɪɡnjɛf, Zoë ˈzoʊi, Éowyn ˈeɪoʊwɪn, Étienne eɪˈtjɛn, Łódź ˈwuːtʃ
"""
NAMES = dict(entry.split() for entry in _TABLE.split(","))


def find_name(word: str) -> str:
    """The IPA of a name or loan word; empty if it is not in the table."""
    return NAMES.get(word) or (NAMES.get(word.lower(), "") if word.istitle() else "")


_CORRECTIONS = tuple(
    (re.compile(written), re.compile(phonemes), right)
    for written, phonemes, right in (
        ("", "ɹ(?=ˈ?ɹ)", ""),
        ("^mc[eiy]", "^məs", "mək"),
        ("o[wv]ski$", "[ˈˌ]?[WOɔɑ]ski$", "ˈɔfski"),
        ("cki$", "(?<!t)ki$", "tski"),
        ("sz", "sˈ?z", "ʃ"),
        ("(?<!^m)cz", "ks?z", "ʧ"),
        ("^sch[aeiou]", "^sk", "ʃ"),
        ("(b[eu]|ba)rger$", "ʤəɹ$", "ɡəɹ"),
        ("inger$", "ɪŋɡəɹ$", "ɪŋəɹ"),
        ("ingham$", "ŋ(ˌ?)æm$", r"ŋ\1hæm"),
        ("..(?<!ng)ham$|nam$", "ˌ?[ɑæ]m$", "əm"),
        ("(?<![ao])is$", "iz$", "ɪs"),
        ("ek$", "ək$", "ɛk"),
        ("ei(?!ko|ji)", "A", "I"),
        ("(?<!sk)i$|o$", "æ", "ɑ"),
    )
)
"""By how a word is written: what the network says, and what is said. Found on words of CMUdict
outside of the 300 that `benchmarks/pronunciation.py` draws."""


def correct_unknown(word: str, phonemes: str) -> str:
    """What the network says of an unknown word, in American phonemes, without its usual faults."""
    for written, wrong, right in _CORRECTIONS:
        if written.search(word.lower()):
            phonemes = wrong.sub(right, phonemes)
    return phonemes
