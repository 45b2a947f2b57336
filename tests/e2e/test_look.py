def test_look(notebook, kernel, theme, screenshot, shared, page):
    page.set_viewport_size({"width": 1500, "height": 1000})
    logs=[]
    page.on("console", lambda m: logs.append(m.text))
    p = notebook(f"import hta_widgets as hw\nts=hw.load({str(shared/'traces/made/ddp_8rank')!r})\ntl=hw.Timeline(ts)\ntl")
    page.wait_for_selector(".hta-app, [role=application]", timeout=20000)
    page.wait_for_timeout(2500)
    screenshot(page, "look_light")
    theme("JupyterLab Dark"); page.wait_for_timeout(1200)
    screenshot(page, "look_dark")
    theme("JupyterLab Light")
    kernel("tl.zoom_to(451_000_000+188_977-0, 453_500_000)"); page.wait_for_timeout(1500)
    screenshot(page, "look_zoom")
    print("\n".join(logs[-30:]))
