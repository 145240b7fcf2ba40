package workshop

// A sample is one call and a text that its answer contains. The samples run in
// this order on one server; every tool has one at least.
type sample struct {
	area, tool, args string
	want             string
	fails            bool // the answer has isError
}

func samples() []sample {
	return []sample{
		{area: "calendar", tool: "list-events", args: `{"calendar":["team","sales"],"from":"2026-03-03"}`, want: `"total":2`},
		{area: "calendar", tool: "create-event", args: `{"title":"Sync","start":"2026-03-09T11:00:00+01:00","end":"2026-03-09T11:30:00+01:00","attendees":["duc@workshop.example"],"recurrence":{"freq":"weekly","count":3}}`, want: `"start":"2026-03-23T10:00:00Z"`},
		{area: "calendar", tool: "move-event", args: `{"id":"evt-105","by-minutes":-30}`, want: `"end":"2026-03-05T10:30:00Z"`},
		{area: "calendar", tool: "cancel-event", args: `{"id":"evt-103","reason":null}`, want: `Cancelled "Dentist".`},
		{area: "calendar", tool: "find-free-slot", args: `{"attendees":["ada@workshop.example","elif@workshop.example"],"day":"2026-03-02","minutes":60}`, want: `"start":"2026-03-02T10:00:00Z"`},
		{area: "calendar", tool: "search", args: `{"query":"northwind review"}`, want: `evt-104`},

		{area: "mail", tool: "list_messages", args: `{"unread_only":true}`, want: `"total":2`},
		{area: "mail", tool: "read_message", args: `{"message_id":"msg-504"}`, want: `đề cương hội thảo`},
		{area: "mail", tool: "send_mail", args: `{"to":"bram@workshop.example","cc":["duc@workshop.example"],"subject":"Paper","body":"On its way.","in_reply_to":"msg-501"}`, want: `"recipients":["bram@workshop.example","duc@workshop.example"]`},
		{area: "mail", tool: "label_message", args: `{"message_id":"msg-503","add":["finance","due"],"remove":["due"]}`, want: `msg-503 is labelled [finance]`},
		{area: "mail", tool: "search", args: `{"query":"invoice","has_label":"finance"}`, want: `"total":1`},

		{area: "tickets", tool: "createTicket", args: `{"title":"Scanner is slow","description":"Ten seconds a page.","priority":"high","assignee":"@duc","watchers":["@ada","@bram"]}`, want: `"id":"T-1046"`},
		{area: "tickets", tool: "getTicket", args: `{"ticketId":"T-1046"}`, want: `Ten seconds a page.`},
		{area: "tickets", tool: "searchTickets", args: `{"status":["open"],"assignee":null}`, want: `"total":1`},
		{area: "tickets", tool: "assignTicket", args: `{"ticketId":"T-1042","assignee":null}`, want: `"assignee":null`},
		{area: "tickets", tool: "transitionTicket", args: `{"ticketId":"T-1044","to":"done","resolution":"fixed"}`, want: `"status":"done"`},
		{area: "tickets", tool: "addComment", args: `{"ticketId":"T-1041","body":"Seen in Firefox only."}`, want: `Comment 1 added to T-1041.`},

		{area: "files", tool: "files.list", args: `{"folder":"/finance","recursive":false,"glob":"*.csv"}`, want: `{"files":[{"bytes":76,"path":"/finance/budget-2026.csv"}]}`},
		{area: "files", tool: "files.read", args: `{"path":"/finance/budget-2026.csv","lines":[2,2]}`, want: "2026-01,12000,11840\n"},
		{area: "files", tool: "files.write", args: `{"path":"/notes/a.txt","content":"one\n"}`, want: `"bytes":4`},
		{area: "files", tool: "files.write", args: `{"path":"/notes/a.txt","content":"two\n","mode":"append"}`, want: `"bytes":8`},
		{area: "files", tool: "files.move", args: `{"from":"/notes/a.txt","to":"/notes/b.txt"}`, want: `Moved /notes/a.txt to /notes/b.txt.`},
		{area: "files", tool: "files.share", args: `{"path":"/notes/b.txt"}`, want: `Anyone in this session`},
		{area: "files", tool: "files.delete", args: `{"path":"/notes/b.txt","confirm":true}`, want: `Deleted`},

		{area: "contacts", tool: "find_contact", args: `{"name":"greta"}`, want: `greta@workshop.example`},
		{area: "contacts", tool: "add_contact", args: `{"name":"Lê Thu","company":"Sông Hồng Foods","emails":[{"kind":"work","address":"thu@songhong.example"}],"phone":"+84241234567"}`, want: `"phone":"+84241234567"`},
		{area: "contacts", tool: "update_contact", args: `{"contact_id":"con-19","fields":{"notes":"Met at the fair","phone":"+4747111222"}}`, want: `Met at the fair`},
		{area: "contacts", tool: "merge_contacts", args: `{"keep":"con-20","duplicates":["con-21"]}`, want: `j.alvarez@fabrikam.example`},
		{area: "contacts", tool: "contact_photo", args: `{"contact_id":"con-11","size":32}`, want: `Ada Lindqvist`},
		{area: "contacts", tool: "search", args: `{"query":"jorge","company":"fabrikam"}`, want: `"total":1`},

		{area: "shop", tool: "list_items", args: `{"category":"tools","maxPrice":30,"sort":"-price"}`, want: `{"items":[{"sku":"CLA-03"`},
		{area: "shop", tool: "get_item", args: `{"sku":"BCH-01"}`, want: `"stock":2`},
		{area: "shop", tool: "view_cart", args: `{}`, want: `"lines":[]`},
		{area: "shop", tool: "add_to_cart", args: `{"sku":"GLU-02","quantity":3}`, want: `"total":29.4`},
		{area: "shop", tool: "view_cart", args: `{}`, want: `"quantity":3`},
		{area: "shop", tool: "checkout", args: `{"shipTo":{"street":"Storgatan 1","city":"Lund","country":"SE"},"billTo":null,"payment":{"method":"invoice","vatId":"SE5566"}}`, want: `"orderId":"ORD-7002"`},
		{area: "shop", tool: "track_order", args: `{"orderId":"ORD-7002"}`, want: `"status":"accepted"`},

		{area: "notes", tool: "list_items", args: `{"kind":"task","open_only":true}`, want: `Order wood glue`},
		{area: "notes", tool: "create_note", args: `{"title":"Ideas","body":"A tool wall","tags":["later"]}`, want: `"id":"note-305"`},
		{area: "notes", tool: "create_outline", args: `{"title":"Move","nodes":[{"text":"Pack","children":[{"text":"Books"},{"text":"Tools","children":[{"text":"Saws","done":true}]}]},{"text":"Drive"}]}`, want: `"number":"1.2.1."`},
		{area: "notes", tool: "complete_task", args: `{"id":"note-302"}`, want: `"done":true`},
		{area: "notes", tool: "delete_note", args: `{"ids":["note-304"]}`, want: `Deleted 1.`},

		{area: "weather", tool: "currentWeather", args: `{"location":{"latitude":21,"longitude":106},"units":"imperial"}`, want: `"city":"Hanoi"`},
		{area: "weather", tool: "forecast", args: `{"city":"são paulo","days":2}`, want: `"date":"2026-03-03"`},
		{area: "weather", tool: "compareCities", args: `{"cities":["Toronto","Hanoi"]}`, want: `"first":"Hanoi"`},
		{area: "weather", tool: "airQuality", args: `{"near":{"lat":52,"lon":13}}`, want: `Berlin: air quality index`},

		{area: "convert", tool: "convert_currency", args: `{"amount":10,"from":"EUR","to":"SEK"}`, want: `"amount":112`},
		{area: "convert", tool: "convert_unit", args: `{"value":212,"from":"F","to":"C"}`, want: `"value":100`},
		{area: "convert", tool: "list_currencies", args: ``, want: `"VND":27500`},
		{area: "convert", tool: "chinese_zodiac", args: `{"year":2026}`, want: `"干支":"丙午"`},

		{area: "travel", tool: "search_flights", args: `{"from":"ARN","to":"HAN","date":"2026-03-12","returnDate":"2026-03-20","passengers":2}`, want: `"route":"HAN-ARN"`},
		{area: "travel", tool: "book_trip", args: `{"traveller":{"fullName":"Hana Sato","born":"1990-04-01","passport":{"number":"TZ123456","country":"JP"}},"itinerary":{"legs":[{"flightNumber":"WS123","date":"2026-03-12"}],"bulkyItems":1},"payment":{"costCentre":"4711"},"contact":{"email":"hana@workshop.example"}}`, want: `"ref":"TRV-2002"`},
		{area: "travel", tool: "list_bookings", args: `{"status":"ticketed"}`, want: `TRV-2001`},
		{area: "travel", tool: "cancel_booking", args: `{"ref":"TRV-2001"}`, want: `"status":"cancelled"`},
		{area: "travel", tool: "dat_ve_xe", args: `{"diem_di":"Hà Nội","diem_den":"Hải Phòng","ngay":"2026-03-08","so_ghe":2,"ho_ten":"Trần Văn An"}`, want: `"price":216000`},

		{area: "leave", tool: "list-employees", args: `{"team":"sales"}`, want: `"handle":"chiara"`},
		{area: "leave", tool: "leave-balance", args: `{"employee":"duc"}`, want: `"pending":5`},
		{area: "leave", tool: "request-leave", args: `{"employee":"elif","from":"2026-03-06","to":"2026-03-09"}`, want: `"days":2`},
		{area: "leave", tool: "decide-leave", args: `{"id":"leave-82","decision":"approved","note":"Enjoy"}`, want: `"status":"approved"`},
		{area: "leave", tool: "berechne-urlaubstage", args: `{"von":"2026-03-30","bis":"2026-04-10","bundesland":"NW"}`, want: `{"feiertage":[{"datum":"2026-04-03","name":"Karfreitag"},{"datum":"2026-04-06","name":"Ostermontag"}],"urlaubstage":8}`},

		{area: "crm", tool: "crm.findAccounts", args: `{"filter":{"any":[{"all":[{"field":"country","op":"eq","value":"de"},{"field":"seats","op":"gte","value":1000}]},{"field":"name","op":"contains","value":"hồng"}]}}`, want: `"total":2`},
		{area: "crm", tool: "crm.createLead", args: `{"person":"Ann Lee","email":"ann@fabrikam.example","source":"fair","custom":{"booth":12,"vip":true}}`, want: `"leadId":"lead-1"`},
		{area: "crm", tool: "crm.updateDeal", args: `{"dealId":"deal-11","patch":{"stage":"won","closeDate":null}}`, want: `"closeDate":null`},
		{area: "crm", tool: "crm.logActivity", args: `{"accountId":"acc-2","activity":{"type":"call","minutes":12}}`, want: `"account":"Fabrikam"`},
		{area: "crm", tool: "crm.pipelineSummary", args: `{}`, want: `"won":{"deals":2,"amount":36000}`},

		{area: "ops", tool: "workshop_status", args: ``, want: `"server":"workshop"`},
		{area: "ops", tool: "export_report", args: `{"rows":3}`, want: "2,2026-03-01,bram,79.19\n"},
		{area: "ops", tool: "export_report", args: `{"rows":2,"format":"json"}`, want: `"row":2`},
		{area: "ops", tool: "run_backup", args: `{"target":"files","seconds":0.1}`, want: `"backupId":"backup-1"`},
		{area: "ops", tool: "print_label", args: `{"text":"Shelf 4"}`, want: `out of paper`, fails: true},
		{area: "ops", tool: "increment_counter", args: `{"counter":"a","by":2}`, want: `"value":2`},
		{area: "ops", tool: "read_counter", args: `{"counter":"a"}`, want: `"value":2`},
	}
}
